"""How far apart float32 takes two runs of one configuration: engines beside thread counts, which only order sums anew.

python benchmarks/rounding.py
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

from galafed.config import resolve
from galafed.model import Model
from galafed.reproduction.timing import TimedRounds

RUNS = {
    "serial, float64": {"engine": "serial", "precision": "float64"},
    "stacked, float64": {"engine": "stacked", "precision": "float64"},
    "serial": {"engine": "serial"},
    "serial, two threads": {"engine": "serial", "threads": 2},
    "stacked": {"engine": "stacked"},
}
PAIRS = (
    ("stacked, float64", "serial, float64"),
    ("stacked", "serial"),
    ("serial, two threads", "serial"),
    ("serial", "serial, float64"),
    ("stacked", "serial, float64"),
)


def trained(settings: dict[str, object], rounds: int) -> tuple[Model, float | None]:
    """The model of GALA on `mini` after some rounds, and its test accuracy."""
    run = resolve({"benchmark": "mini", "device": "cpu", **settings})
    torch.set_num_threads(run.threads)
    timed = TimedRounds(run)
    for number in range(rounds):
        timed.round(number)
    return timed.model, timed.accuracy


def distance(one: Model, other: Model) -> float:
    """The largest difference of two weights; statistics of BatchNorm are left out."""
    return max(
        float((value.double() - other.parts[part][name].double()).abs().max())
        for part, state in one.parts.items()
        for name, value in state.items()
        if name.endswith(("weight", "bias"))
    )


def main() -> None:
    """Train, compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    models = {name: trained(settings, options.rounds) for name, settings in RUNS.items()}
    apart = {f"{one} - {other}": distance(models[one][0], models[other][0]) for one, other in PAIRS}
    found = {
        "rounds": options.rounds,
        "accuracy": {name: accuracy for name, (_, accuracy) in models.items()},
        "apart": apart,
    }
    print(json.dumps(found, indent=2))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "rounding.json").write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
