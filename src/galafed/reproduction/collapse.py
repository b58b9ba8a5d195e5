"""Runs that end up saying the same of every image: discrepancy is nothing then, and so is what they know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from galafed.reproduction.accuracy import Done

BLANK = 0.05
"""Nats of information between images and predictions, of 2.3 that ten classes can have."""


def collapses(done: Done) -> Iterator[str]:
    """A sentence for every run that collapsed: since when, and whose weight had grown until then."""
    for cell, summary in done:
        since = blank_since(summary)
        if since is None:
            continue
        seed = f", seed {cell.run.seed}" if cell.run.seed else ""
        heaviest = _heaviest(summary["kept"].get("relevance", {}), since)
        last = f"{100 * summary['accuracy']['last']:.1f}{seed}"
        yield (
            f"Ours: *{cell.row}* collapses on {cell.column} ({last}): from round {since} on it "
            f"says nearly the same of every image (less than {BLANK:g} nats of information){heaviest}."
        )


def blank_since(summary: Mapping[str, Any]) -> int | None:
    """The round, counted from 1, from which on predictions tell nothing to the end; none if they do in the end."""
    told = summary.get("kept", {}).get("information", ())
    lasting = 0
    for value in reversed(told):
        if value is None or value >= BLANK:
            break
        lasting += 1
    return len(told) - lasting + 1 if lasting else None


def _heaviest(relevance: Mapping[str, list[float | None]], since: int) -> str:
    """Which source had the largest weight until then, where one outweighed all others together."""
    weights = [(value, source) for source, values in relevance.items() for value in values[:since] if value is not None]
    weight, source = max(weights, default=(0.0, ""))
    return f"; by then {source} alone had had {weight:.0%} of the weight" if weight > 1 / 2 else ""
