"""Who resists a poisoned source: one of mini's sources with wrong labels, three seeds each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from galafed.config import resolve
from galafed.report.accuracy_table import write_table
from galafed.studies.base import Cell, Study, commit, studies
from galafed.studies.mini import CENTRAL, FEDERATED, SEEDS

TARGET, SOURCE = "hand-photo", "type-photo"
SHARES = {"clean": 0.0, "half of the labels": 0.5, "all labels": 1.0}

ROWS: Mapping[str, Mapping[str, Any]] = {
    "source-only": {"algorithm": "source_only"},
    "source-only, pooled": {"algorithm": "source_only", "source_only": {"pooled": True}},
    **CENTRAL,
    **FEDERATED,
}


@studies.register("poison")
class PoisonStudy(Study):
    """Every system, one target, one source whose labels go wrong."""

    name: ClassVar[str]
    title: ClassVar[str] = f"mini: labels of {SOURCE} poisoned, target {TARGET}"

    def cells(self) -> Sequence[Cell]:
        """One CPU thread a run, so that several run side by side."""
        common = {"benchmark": "mini", "target": TARGET, "device": "cpu", "threads": 1}
        return [
            Cell(row, column, resolve({**common, **values, "seed": seed, **_poison(share)}))
            for row, values in ROWS.items()
            for column, share in SHARES.items()
            for seed in SEEDS
        ]

    def write(self, folder: Path, done: Sequence[tuple[Cell, Mapping[str, Any]]], *, command: str) -> Sequence[Path]:
        """The table; the clean column is that of the study `mini`."""
        return write_table(
            folder,
            [(cell.row, cell.column, summary) for cell, summary in done],
            title=self.title,
            about=f"The column tells how many labels of {SOURCE} are wrong by one class.",
            made={"command": command, "commit": commit()},
            lower_bound={},
        )


def _poison(share: float) -> dict[str, Any]:
    return {"poison": {"sources": [SOURCE], "share": share}} if share else {}
