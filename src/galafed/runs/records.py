"""Reading what runs have written, and listing what the package offers. Nothing here needs torch but `ls networks`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from galafed.config import read_toml
from galafed.errors import ConfigError, DataError
from galafed.runs.folders import CHECKPOINTS, CONFIG, DONE, METRICS, SUMMARY

MEND = "restore the file, or remove that line: what it held is measured again, the other lines stay"
"""What to do about a damaged line of a file that is kept for good."""

NEEDED = {"accuracy", "benchmark", "target", "algorithm", "rounds", "seed", "digest"}
"""What every summary has."""


def record(folder: Path) -> dict[str, Any]:
    """A run as its folder tells it: the summary of a finished one, the progress of another; `done` says which."""
    if not (folder / CONFIG).is_file():
        raise ConfigError(f"{folder}: holds no run (no config.toml); 'gala ls runs' lists the runs there are")
    if (folder / DONE).exists():
        if (summary := summary_of(folder)) is None:
            raise DataError(f"{folder / 'summary.json'} cannot be read; {how_to_write_anew(folder)}")
        return {"run": str(folder), "done": True} | summary
    config = read_toml(folder / CONFIG)
    lines = metrics(folder)
    keys = ("benchmark", "target", "algorithm", "engine", "rounds", "seed")
    return {
        "run": str(folder),
        "done": False,
        **{key: config.get(key) for key in keys},
        "rounds_done": lines[-1]["round"] if lines else 0,
        "accuracy": {"last": lines[-1].get("accuracy") if lines else None},
    }


def summary_of(folder: Path) -> dict[str, Any] | None:
    """What summary.json holds; nothing where it was lost or is not what a run writes."""
    try:
        found = json.loads((folder / SUMMARY).read_bytes())
    except (OSError, ValueError):
        return None
    whole = isinstance(found, dict) and found.keys() >= NEEDED and isinstance(found["accuracy"], dict)
    return found if whole and "last" in found["accuracy"] else None


def how_to_write_anew(folder: Path) -> str:
    """What to do about a file that a finished run has written last: its newest checkpoint knows what was in it."""
    if not any((folder / CHECKPOINTS).glob("round-*")):
        return "restore the file from a copy, for the run has no checkpoint any more"
    return f"remove {folder / 'done'} and write it anew with 'gala resume {folder}'"


def finished(folder: Path) -> dict[str, Any]:
    """The summary of a finished run."""
    found = record(folder)
    if not found["done"]:
        raise ConfigError(
            f"{folder}: is not finished ({found['rounds_done']} of {found['rounds']} rounds); 'gala resume {folder}'"
        )
    return found


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl up to the first that cannot be read, for example one cut short by an interruption."""
    path = folder / METRICS
    lines = []
    for text in path.read_bytes().splitlines() if path.exists() else ():
        try:
            line = json.loads(text)
        except ValueError:
            break
        if not (isinstance(line, dict) and "round" in line):
            break
        lines.append(line)
    return lines


def lines_of(path: Path) -> list[bytes]:
    """The lines of a file that is kept for good, none where there is none; one that cannot be read is told."""
    try:
        return path.read_bytes().splitlines() if path.exists() else []
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); restore the file or remove it") from None


def catalogue(what: str, folder: Path) -> list[dict[str, Any]]:
    """What there is of a kind, as plain records."""
    if what == "runs":
        return [_row(path.parent) for path in sorted(folder.glob("*/config.toml"))]
    from galafed.algorithms.base import algorithms
    from galafed.benchmarks.base import benchmarks
    from galafed.engines.base import engines

    if what == "algorithms":
        return [
            {"name": n, "kind": a.kind, "federated": a.kind != "central", "sends": a.sends, "paper": a.paper}
            for n, a in ((name, algorithms.get(name)) for name in algorithms.names())
        ]
    if what == "benchmarks":
        return [
            {"name": n, "title": b.title, "domains": list(b.domains), "classes": len(b.classes), "network": b.network}
            for n, b in ((name, benchmarks.get(name)) for name in benchmarks.names())
        ]
    if what == "engines":
        return [{"name": name, "summary": engines.get(name).summary} for name in engines.names()]
    from galafed.networks.base import networks

    return [{"name": name, "summary": networks.get(name).summary} for name in networks.names()]


def _row(folder: Path) -> dict[str, Any]:
    try:
        found = record(folder)
    except (ConfigError, DataError) as error:
        return {"run": str(folder), "state": f"damaged: {error}", "target": "-", "algorithm": "-", "accuracy": None}
    state = "done" if found["done"] else f"{found['rounds_done']}/{found['rounds']}"
    accuracy = found["accuracy"]["last"]
    return {
        "run": str(folder),
        "state": state,
        "target": found["target"],
        "algorithm": found["algorithm"],
        "accuracy": accuracy,
    }
