"""Every system of the paper on all eight targets of `mini`, three seeds each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.reproduction.accuracy import LABELS_BY_FEATURES, Values
from galafed.reproduction.mini_table import CENTRAL, FEDERATED, ROWS, MiniTable
from galafed.studies.base import studies


@studies.register("mini")
class MiniStudy(MiniTable):
    """Every system, eight targets, three seeds."""

    title: ClassVar[str] = "mini: every system of the paper on every target"
    about: ClassVar[str] = (
        "The target is named on top; the sources are the seven other domains. All systems have the same data, seeds "
        "and network. SHOT and SFDA were first measured with pseudo-labels by class means of the extractor's features; "
        "those rows stay for comparison."
    )
    lower_bound: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(CENTRAL, "source-only, pooled"),
        **dict.fromkeys(FEDERATED, "source-only"),
    }
    """Which bound trains on the same data in the same place."""
    seeds: ClassVar[Mapping[str, int]] = {**MiniTable.seeds, **dict.fromkeys(LABELS_BY_FEATURES, 3)}

    def rows(self) -> Mapping[str, Values]:
        return {**ROWS, **LABELS_BY_FEATURES}
