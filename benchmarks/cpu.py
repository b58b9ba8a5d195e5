"""`stacked` beside `serial` on a CPU: rounds of `mini`, and of 50 clients with 200 images each.

python benchmarks/cpu.py
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
from round import images

from galafed.algorithms.base import algorithms
from galafed.config import Run, resolve
from galafed.engines.base import engines
from galafed.federation import Federation
from galafed.loops import Bench, Images
from galafed.networks.base import networks
from galafed.runs.assembly import assemble

Round = Callable[[int], None]
ENGINES = ("serial", "stacked")


def mini(engine: str) -> Round:
    """A round of GALA on `mini`, with its evaluation."""
    config = resolve({"benchmark": "mini", "engine": engine, "device": "cpu"})
    torch.set_num_threads(config.threads)
    made = assemble(config)
    model = made.algorithm.start(made.federation, made.network.initial(0))

    def play(number: int) -> None:
        nonlocal model
        made.federation.begin_round(number)
        outcome = made.algorithm.round(made.federation, model)
        model = outcome.model
        made.evaluator(outcome.tested or model)

    return play


def many(engine: str, clients: int, count: int) -> Round:
    """A round of GALA with many small clients, settings as in `mini`."""
    config: Run = dataclasses.replace(resolve({"benchmark": "mini"}), engine=engine)
    torch.set_num_threads(config.threads)
    network = networks.get(config.network)(classes=10, image_size=32)
    data: dict[str, Images] = {f"source{k:02d}": images(count, 32, k) for k in range(clients)}
    data["target"] = images(count, 32, clients, labelled=False)
    bench = Bench(network, torch.device("cpu"))
    made: Any = engines.get(engine)(bench=bench, data=data, seed=0, config=config)
    federation = Federation(made, network, sources=set(data) - {"target"}, target="target", seed=0)
    method = algorithms.get("gala")
    program = method(method.Settings(), config.training, rounds=100)
    model = program.start(federation, network.initial(0))

    def play(number: int) -> None:
        nonlocal model
        federation.begin_round(number)
        model = program.round(federation, model).model

    return play


def seconds(plays: Mapping[str, Round], rounds: int) -> dict[str, float]:
    """The median round of each engine, after one to warm up; in turns, for a processor is not always equally fast."""
    times: dict[str, list[float]] = {engine: [] for engine in plays}
    for number in range(rounds + 1):
        for engine, play in plays.items():
            started = time.perf_counter()
            play(number)
            times[engine].append(time.perf_counter() - started)
    return {engine: median(measured[1:]) for engine, measured in times.items()}


def main() -> None:
    """Measure both engines in turn, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = []
    for case in ("mini", f"{options.clients} clients of {options.images} images"):
        make = mini if case == "mini" else partial(many, clients=options.clients, count=options.images)
        taken = seconds({engine: make(engine) for engine in ENGINES}, options.rounds)
        faster = taken["serial"] / taken["stacked"]
        cores = len(os.sched_getaffinity(0))
        lines.append(
            {"case": case, "cores": cores, **{k: round(v, 3) for k, v in taken.items()}, "times": round(faster, 2)}
        )
        print(json.dumps(lines[-1]), flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "cpu.json").write_text(json.dumps(lines, indent=2) + "\n")


if __name__ == "__main__":
    main()
