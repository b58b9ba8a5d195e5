"""Seconds of a round and of its phases, against the floor of this device and the paper's figures.

    python benchmarks/round.py                                   # everything, on a GPU: about 6 minutes
    python benchmarks/round.py --sources 2 3 --images 256 --network small_cnn --rounds 1 --device cpu

Images are random: the time does not depend on them. Writes table.json and table.md to --out.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from statistics import median
from typing import Any

import torch
from floor import Ceilings, ceilings, step_cost

from galafed.reproduction.published import SECONDS_PER_ROUND
from galafed.reproduction.timing import TimedRounds, shown, timed_run
from galafed.traffic import EVALUATION
from galafed.work import Fit

PAPER = {("gala", count): seconds for count, seconds in SECONDS_PER_ROUND["GALA"].items()}
PAPER[("fact", 2)] = max(SECONDS_PER_ROUND["FACT"].values())
"""Seconds a round on an A100, of the slowest client alone; of FACT, always two sources, the largest."""
BATCH = 128


def measure(engine: str, precision: str, algorithm: str, sources: int, options: argparse.Namespace) -> dict[str, Any]:
    """One line of the table: medians over rounds, the first of which is left out."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    values = {"images": options.images, "size": options.side, "network": options.network, "device": options.device}
    run = TimedRounds(timed_run(algorithm, sources, engine=engine, precision=precision, **values))
    rounds = 1 if engine == "serial" else options.rounds
    warm = 1 if engine == "serial" else 4  # a short last batch is recorded in the fourth round
    first = run.round(0) if engine != "serial" else 0.0
    for number in range(1, warm):
        run.round(number)
    run.phases.clear()
    seconds = median(run.round(warm + number) for number in range(rounds))
    limits: Ceilings = options.ceilings
    operations = floor = 0.0
    for name, job in run.jobs.items():
        work = job.task.work
        if name in run.phases and name != EVALUATION:
            size = BATCH if isinstance(work, Fit) else options.images
            steps = -(-options.images // size) * run.asked[name]
            cost = step_cost(work, run.network, size)
            operations += cost.operations * steps
            floor += cost.seconds(limits) * steps
    phases = {"evaluation" if name == EVALUATION else name: median(times) for name, times in run.phases.items()}
    steps = -(-options.images // BATCH) * run.asked["train"]
    line = {
        "device": options.name,
        "engine": engine,
        "precision": precision,
        "algorithm": algorithm,
        "sources": sources,
        "seconds_per_round": round(seconds, 4),
        "ms_per_client_step": round(1000 * phases["train"] / steps, 4),
        "tflops": round(operations / seconds / 1e12, 1),
        "floor_share": round(floor / seconds, 3),
        "peak_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2) if run.device.type == "cuda" else None,
        "phases": {name: round(value, 4) for name, value in phases.items()},
        "first_round": round(first, 2),
        "paper_seconds": PAPER.get((algorithm, sources)),
    }
    print(json.dumps(line), flush=True)
    run.close()
    return line


def markdown(lines: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """The table for people."""
    limits: Ceilings = options.ceilings
    head = (
        f"Measured on {options.name}, torch {torch.__version__}, by `{options.command}`.\n\n"
        f"Domains of {options.images} random images, batch {BATCH}, {options.network}. In the same run, a large "
        f"bfloat16 product made {limits.operations / 1e12:.0f} TFLOP/s and a copy {limits.bytes / 1e12:.2f} TB/s: "
        "the floor.\n\n"
        "| engine | precision | algorithm | sources | s per round | ms per client step | TFLOP/s | of the floor | "
        "peak GB | phases, s | paper, s |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
    )
    rows = []
    for line in lines:
        cells = [line[key] for key in ("engine", "precision", "algorithm", "sources")]
        cells += [f"{line['seconds_per_round']:.3f}", f"{line['ms_per_client_step']:.3f}", line["tflops"]]
        cells += [f"{line['floor_share']:.0%}", line["peak_gb"], shown(line["phases"]), line["paper_seconds"] or "-"]
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    note = (
        "\n\nThe paper's seconds are those of the slowest client alone, on an A100; ours are those of all clients' "
        "work, one after the other or together, with evaluation, on one GPU.\n"
    )
    return head + "\n".join(rows) + note


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=int, nargs="*", default=[3, 5, 7, 9, 17])
    parser.add_argument("--serial", type=int, nargs="*", default=[3, 9], help="sources to measure `serial` with")
    parser.add_argument("--images", type=int, default=25000)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--network", default="digit_cnn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    cuda = options.device.startswith("cuda")
    options.name = torch.cuda.get_device_name() if cuda else f"CPU {platform.machine()}"
    options.command = "python benchmarks/round.py"
    torch.set_num_threads(1)
    options.ceilings = ceilings(torch.device(options.device))
    fast = "bfloat16" if cuda else "float32"
    cases = [("stacked", fast, "gala", n) for n in options.sources] + [("stacked", fast, "fact", 2)]
    cases += [("serial", "float32", "gala", n) for n in options.serial]
    lines = [measure(*case, options) for case in cases]
    text = markdown(lines, options)
    print("\n" + text)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "table.json").write_text(json.dumps(lines, indent=2) + "\n")
        (options.out / "table.md").write_text(text)


if __name__ == "__main__":
    main()
