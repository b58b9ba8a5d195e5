"""Which label-free criterion picks tau and the IGD scale well: `gala tune` on targets of mini whose labels we know.

python benchmarks/tuning.py --targets hand hand-photo --jobs 2
"""

from __future__ import annotations

import json
from pathlib import Path

import tyro

from galafed.benchmarks.base import benchmarks
from galafed.runs.files import write_atomically
from galafed.runs.records import finished
from galafed.studies.base import commit
from galafed.tuning.comparing import compare, table
from galafed.tuning.judging import Judged
from galafed.tuning.searching import CRITERION, SCALES, TAUS, candidates, tune

SEED = 0


def main(
    targets: tuple[str, ...] = benchmarks.get("mini").domains,
    rounds: int = 12,
    jobs: int = 1,
    work: Path = Path("runs"),
    out: Path = Path("results/tuning"),
) -> None:
    """Run every combination on every target, and count how often each criterion was right.

    Args:
        targets: Which targets of mini.
        rounds: Of every run; fewer than mini's 30, or it takes half a day on one core.
        jobs: How many runs at a time.
        work: Where the runs are kept.
        out: Where the table goes.
    """
    by_target: dict[str, list[Judged]] = {}
    machines = set()
    for target in targets:
        common = {"benchmark": "mini", "target": target, "seed": SEED, "rounds": rounds, "device": "cpu", "threads": 1}
        tried = candidates(common, TAUS, SCALES)
        record = tune(tried, criterion=CRITERION, work=work, out=work / f"tune-{target}", jobs=jobs, say=print)
        by_target[target] = [Judged(**run) for run in json.loads(record.read_bytes())["runs"]]
        machines |= {finished(Path(run.run))["machine"] for run in by_target[target]}
        write(out, by_target, rounds, sorted(machines))


def write(out: Path, by_target: dict[str, list[Judged]], rounds: int, machines: list[str]) -> None:
    """picks.md to read, picks.json, and runs.jsonl with every score."""
    rows = compare(by_target)
    about = (
        f"Made by `python benchmarks/tuning.py` at commit {commit()} on cpu ({'; '.join(machines)}). On each of {len(by_target)} targets of mini "
        f"({', '.join(by_target)}), {len(TAUS) * len(SCALES)} runs of GALA with tau {_list(TAUS)} and IGD scale {_list(SCALES)}, {rounds} rounds, seed {SEED}. "
        "Right: the criterion, which sees no target label, picks a run that is as accurate in the last round as the one that test labels would pick. "
        "Lost: points of accuracy against that run. One seed and short runs: a difference of a point between two criteria means nothing."
    )
    runs = [{"target": t, **vars(run), "run": Path(run.run).name} for t, judged in by_target.items() for run in judged]
    title = "# mini: picking tau and the IGD scale without target labels"
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "picks.md", "\n".join([title, "", about, "", *table(rows), ""]).encode())
    write_atomically(out / "picks.json", (json.dumps(rows, indent=1) + "\n").encode())
    write_atomically(out / "runs.jsonl", "".join(json.dumps(run) + "\n" for run in runs).encode())
    print(f"wrote {out / 'picks.md'}")


def _list(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)


if __name__ == "__main__":
    tyro.cli(main)
