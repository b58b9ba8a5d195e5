"""Who resists a poisoned source: one of mini's sources with wrong labels, three seeds each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.reproduction.accuracy import Values
from galafed.reproduction.mini_table import BOUNDS, CENTRAL, FEDERATED, MiniTable
from galafed.studies.base import studies

TARGET, SOURCE = "hand-photo", "type-photo"
SHARES = {"clean": 0.0, "half of the labels": 0.5, "all labels": 1.0}


@studies.register("poison")
class PoisonStudy(MiniTable):
    """Every system, one target, one source whose labels go wrong; the clean column is that of the study `mini`."""

    title: ClassVar[str] = f"mini: labels of {SOURCE} poisoned, target {TARGET}"
    about: ClassVar[str] = f"The column tells how many labels of {SOURCE} are wrong by one class."

    def rows(self) -> Mapping[str, Values]:
        return {row: BOUNDS[row] for row in ("source-only", "source-only, pooled")} | {**CENTRAL, **FEDERATED}

    def columns(self) -> Mapping[str, Values]:
        return {
            column: {"target": TARGET} | ({"poison": {"sources": [SOURCE], "share": share}} if share else {})
            for column, share in SHARES.items()
        }
