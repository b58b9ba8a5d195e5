"""What a finished run comes down to: the content of summary.json."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from statistics import fmean, median
from typing import Any

import torch

from galafed.benchmarks.base import benchmarks
from galafed.config import Run
from galafed.runs.checkpoint import Checkpoint
from galafed.runs.selection import best, picks, selected, told


def summarise(config: Run, final: Checkpoint, *, device: str, notes: Mapping[str, str]) -> dict[str, Any]:
    """The summary of a run. Three accuracies are told apart: last round, label-free pick, best round (an oracle)."""
    history = final.history
    last, pick, top = history[-1], selected(history, config.rounds, config.selection), best(history)
    criteria = picks(history, config.rounds)
    benchmark = benchmarks.get(config.benchmark)(config.benchmark_settings)
    return {
        "benchmark": config.benchmark,
        "target": config.target,
        "sources": list(config.sources),
        "notes": dict(notes),
        "algorithm": config.algorithm,
        "network": config.network,
        "classes": list(benchmark.classes),
        "image_size": benchmark.image_size,
        "engine": config.engine,
        "device": device,
        "machine": machine(),
        "rounds": config.rounds,
        "seed": config.seed,
        "accuracy": {
            "last": last["accuracy"],
            "selected": pick["accuracy"] if pick else None,
            "best_oracle": top["accuracy"] if top else None,
        },
        "selection": {name: {"round": line["round"], "accuracy": line["accuracy"]} for name, line in criteria.items()},
        "best_oracle_round": top["round"] if top else None,
        "told": None if last.get("information") is None else round(told(last), 4),
        "relevance": last["relevance"],
        "failures": sum(len(line["failures"]) for line in history),
        "seconds_per_round": fmean(line["seconds"] for line in history),
        "bytes": _bytes(final),
        "digest": (final.tested or final.model).digest(),
        "config_hash": config.hash(),
    }


def machine() -> str:
    """What the numbers were made on: processor, torch and Python."""
    return f"{platform.machine()}, torch {torch.__version__}, Python {platform.python_version()}"


def _bytes(final: Checkpoint) -> dict[str, Any]:
    """Bytes of the median round: as the paper's communication table counts them, and `all` there are.

    The table leaves out the class centroids and the head statistics that the target sends.
    """
    lines = [line["bytes"] for line in final.history]
    everything = {who: int(median(line[who] for line in lines)) for who in ("source", "server", "target")}
    left_out = int(median(line["not_in_paper"] for line in lines))
    return {
        "source": everything["source"],
        "server": everything["server"] - left_out,
        "target": everything["target"] - left_out,
        "all": everything,
        "before_first_round": final.bytes_before,
        "evaluation": int(median(line.get("evaluation", 0) for line in lines)),
    }
