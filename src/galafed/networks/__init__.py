"""Networks: an extractor and a predictor. One file each."""

from __future__ import annotations

from galafed.registry import entries, plugins


def names() -> tuple[str, ...]:
    """The networks there are, from the names of files and plug-ins: making one needs torch, naming it does not."""
    return tuple(sorted({*entries("galafed.networks"), *plugins("galafed.networks")}))
