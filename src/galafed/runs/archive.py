"""What a study has measured so far: the summaries of its runs, each with its configuration, in one committed file."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from galafed.config import Run, read_toml, resolve
from galafed.errors import ConfigError, DataError
from galafed.former import as_it_was
from galafed.runs.files import write_atomically
from galafed.runs.folders import CONFIG
from galafed.runs.records import MEND, finished, lines_of

FILE = "runs.jsonl"

PLACE = (
    "device", "engine", "threads", "max_clients_at_once", "checkpoint_every", "keep_checkpoints", "quorum", "timeout",
)  # fmt: skip
"""Where and how carefully a run was done; not what was done."""

Summary = Mapping[str, Any]


def recipe(run: Run) -> str:
    """A fingerprint of what a run does, the same on every machine and engine."""
    values = {key: value for key, value in run.to_dict().items() if key not in PLACE}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def read(folder: Path) -> dict[str, Summary]:
    """The summaries of a study by recipe. A setting that was added since a run counts as what it did then."""
    path = folder / FILE
    found: dict[str, Summary] = {}
    for number, text in enumerate(lines_of(path), start=1):
        try:
            summary = json.loads(text)
            found[recipe(resolve(as_it_was(summary["config"])))] = summary
        except (ValueError, KeyError, TypeError, AttributeError):  # no text, no summary, or one of something else
            raise DataError(f"{path}, line {number}: is no summary of a run; {MEND}") from None
        except ConfigError:  # a configuration this version knows no more: kept, though no cell asks for it
            found[hashlib.sha256(text).hexdigest()] = summary
    return found


def of_run(folder: Path, *, kept: Mapping[str, Any]) -> Summary:
    """The summary of a finished run with its configuration; the name of the folder it was in is left out."""
    summary = {key: value for key, value in finished(folder).items() if key not in ("run", "done")}
    return summary | {"config": read_toml(folder / CONFIG)} | ({"kept": dict(kept)} if kept else {})


def accuracy(summary: Summary, selection: str = "last") -> float:
    """A test accuracy in percent; a summary that has none, or what is no number, is told of."""
    found = summary.get("accuracy")
    value = found.get(selection) if isinstance(found, Mapping) else None
    if not isinstance(value, int | float) or not math.isfinite(value):
        run = ", ".join(f"{key} {summary.get(key)}" for key in ("benchmark", "target", "algorithm", "seed"))
        raise DataError(
            f"a run has no accuracy for the table ({selection}: {value}): {run}. A target without test labels has "
            f"none: give it labels, or leave it out. Of any other the line in {FILE} is damaged: restore or remove it"
        )
    return 100 * value


def add(folder: Path, fresh: Mapping[str, Summary]) -> None:
    """Put summaries beside those that are there by now, which stay. The caller has the lock."""
    known = read(folder)
    write(folder, (known | {key: summary for key, summary in fresh.items() if key not in known}).values())


def write(folder: Path, summaries: Iterable[Summary]) -> None:
    """All summaries, one a line."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FILE, "".join(json.dumps(summary) + "\n" for summary in summaries).encode())
