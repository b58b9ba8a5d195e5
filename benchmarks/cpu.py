"""`stacked` beside `serial` on a CPU: rounds of `mini`, and of 50 clients with 200 images each.

Where other programs run on the machine, seconds say little, and processor seconds (`work`) more.

python benchmarks/cpu.py
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Mapping
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

from galafed.config import Run, resolve
from galafed.reproduction.timing import TimedRounds, timed_run

ENGINES = ("serial", "stacked")


def mini(engine: str) -> Run:
    """A run of GALA on `mini`."""
    return resolve({"benchmark": "mini", "engine": engine, "device": "cpu"})


def many(engine: str, clients: int, count: int) -> Run:
    """GALA with many small clients, network and settings as in `mini`."""
    training = {"batch_size": 64, "lr": 0.05}
    return timed_run("gala", clients, images=count, network="small_cnn", engine=engine, device="cpu", training=training)


class Apart:
    """Rounds of one engine in a process of its own, as a user runs it: what one tells the C library the other lacks."""

    def __init__(self, run: Run) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=_rounds, args=(run, theirs), daemon=True)
        self._process.start()
        self._line.recv()  # it is ready

    def round(self, number: int) -> tuple[float, float]:
        """Seconds and processor seconds of a round."""
        self._line.send(number)
        taken: tuple[float, float] = self._line.recv()
        return taken

    def close(self) -> None:
        """End the process."""
        self._line.send(None)
        self._process.join()


def _rounds(run: Run, line: Connection) -> None:
    torch.set_num_threads(1)  # as both cases say; `stacked` has a worker on every core
    rounds = TimedRounds(run)
    line.send("ready")
    while (number := line.recv()) is not None:
        before = time.process_time()
        taken = rounds.round(number)
        line.send((taken, time.process_time() - before))


def seconds(runs: Mapping[str, Run], rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """The median round of each engine, in seconds and in processor seconds, after one to warm up.

    In turns, for a processor is not always equally fast.
    """
    engines = {engine: Apart(run) for engine, run in runs.items()}
    found: dict[str, list[tuple[float, float]]] = {engine: [] for engine in runs}
    for number in range(rounds + 1):
        for engine, apart in engines.items():
            found[engine].append(apart.round(number))
    for apart in engines.values():
        apart.close()
    return tuple(_medians({engine: [pair[k] for pair in pairs] for engine, pairs in found.items()}) for k in (0, 1))  # type: ignore[return-value]


def _medians(measured: Mapping[str, list[float]]) -> dict[str, float]:
    return {engine: round(median(values[1:]), 3) for engine, values in measured.items()}


def main() -> None:
    """Measure both engines in turn, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--cases", nargs="*", choices=("mini", "many"), default=["mini", "many"])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    small = partial(many, clients=options.clients, count=options.images)
    cases = {"mini": ("mini", mini), "many": (f"{options.clients} clients of {options.images} images", small)}
    lines = []
    for case, make in (cases[name] for name in options.cases):
        taken, work = seconds({engine: make(engine) for engine in ENGINES}, options.rounds)
        faster = taken["serial"] / taken["stacked"]
        cores = len(os.sched_getaffinity(0))
        lines.append({"case": case, "cores": cores, **taken, "times": round(faster, 2), "work": work})
        print(json.dumps(lines[-1]), flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "cpu.json").write_text(json.dumps(lines, indent=2) + "\n")


if __name__ == "__main__":
    main()
