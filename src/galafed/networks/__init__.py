"""Networks: an extractor and a predictor. One file each."""

from __future__ import annotations

from galafed.registry import entries


def names() -> tuple[str, ...]:
    """The networks there are, from their file names: making one needs torch, naming it does not."""
    return entries("galafed.networks")
