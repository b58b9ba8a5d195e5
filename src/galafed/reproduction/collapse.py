"""Runs that end up saying the same of every image: discrepancy is nothing then, and so is what they know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from galafed.reproduction.accuracy import Done
from galafed.reproduction.history import accuracies

BLANK = 0.05
"""Nats of information between images and predictions, of 2.3 that ten classes can have."""
LOST = 30.0
"""Percent of ten classes that a run has to have had once to be called collapsed."""


def collapses(done: Done) -> Iterator[str]:
    """A sentence for every run that ends so: since when, and whether it was ever better."""
    for cell, summary in done:
        since = blank_since(summary)
        if since is None:
            continue
        best = max((value for number, value in accuracies(summary) if number < since), default=0.0)
        what = "collapses" if best > LOST else "never gets going"
        before = f" and at most {best:.1f} before" if best else ""
        yield (
            f"Ours: *{cell.row}* {what} on {cell.column} (seed {cell.run.seed}): from round {since} on it says nearly "
            f"the same of every image (less than {BLANK:g} nats of information), {_last(summary)} in the end{before}."
        )


def blank_since(summary: Mapping[str, Any]) -> int | None:
    """The round, counted from 1, from which on predictions tell nothing to the end; none if they do in the end."""
    tested = [(k, v) for k, v in enumerate(summary.get("kept", {}).get("information", ()), start=1) if v is not None]
    if not tested or tested[-1][1] >= BLANK:
        return None
    telling = [number for number, value in tested if value >= BLANK]
    return next(number for number, _ in tested if number > max(telling, default=0))


def _last(summary: Mapping[str, Any]) -> str:
    return f"{100 * summary['accuracy']['last']:.1f} %"
