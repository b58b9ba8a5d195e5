"""Every system of the paper on all eight targets of `mini`, three seeds each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.reproduction.accuracy import Values
from galafed.reproduction.mini_table import CENTRAL, FEDERATED, ROWS, MiniTable
from galafed.studies.base import studies


@studies.register("mini")
class MiniStudy(MiniTable):
    """Every system, eight targets, three seeds."""

    title: ClassVar[str] = "mini: every system of the paper on every target"
    about: ClassVar[str] = (
        "The target is named on top; the sources are the seven other domains. All systems have the same data, seeds "
        "and network."
    )
    lower_bound: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(CENTRAL, "source-only, pooled"),
        **dict.fromkeys(FEDERATED, "source-only"),
    }
    """Which bound trains on the same data in the same place."""

    def rows(self) -> Mapping[str, Values]:
        return ROWS
