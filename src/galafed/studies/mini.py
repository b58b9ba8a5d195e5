"""Every system of the paper on all eight targets of `mini`, three seeds each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.config import resolve
from galafed.report.accuracy_table import write_table
from galafed.studies.base import Cell, commit, studies

SEEDS = (0, 1, 2)

BOUNDS: Mapping[str, Mapping[str, Any]] = {
    "source-only": {"algorithm": "source_only"},
    "source-only, target statistics": {"algorithm": "source_only", "source_only": {"statistics": "target"}},
    "source-only, pooled": {"algorithm": "source_only", "source_only": {"pooled": True}},
    "source-only, pooled, target statistics": {
        "algorithm": "source_only",
        "source_only": {"pooled": True, "statistics": "target"},
    },
    "oracle": {"algorithm": "oracle"},
}
CENTRAL: Mapping[str, Mapping[str, Any]] = {
    "MDAN": {"algorithm": "mdan"},
    "M³SDA": {"algorithm": "m3sda"},
    "CMSS": {"algorithm": "cmss"},
    "DSBN": {"algorithm": "dsbn"},
}
FEDERATED: Mapping[str, Mapping[str, Any]] = {
    "FADA": {"algorithm": "fada"},
    "SHOT": {"algorithm": "shot"},
    "SFDA": {"algorithm": "sfda"},
    "KD3A": {"algorithm": "kd3a"},
    "FACT": {"algorithm": "fact"},
    "GALA": {"algorithm": "gala"},
}
ROWS = {**BOUNDS, **CENTRAL, **FEDERATED}

LOWER_BOUND = {
    **dict.fromkeys(CENTRAL, "source-only, pooled"),
    **dict.fromkeys(FEDERATED, "source-only"),
}
"""Which bound trains on the same data in the same place."""


@studies.register("mini")
class MiniStudy:
    """Every system, eight targets, three seeds."""

    name: ClassVar[str]
    title: ClassVar[str] = "mini: every system of the paper on every target"

    def cells(self) -> Sequence[Cell]:
        """Every row on every target."""
        return on_every_target(ROWS)

    def write(self, folder: Path, done: Sequence[tuple[Cell, Mapping[str, Any]]], *, command: str) -> Sequence[Path]:
        """The table, with who fell behind plain source-only training on the same data."""
        return write_table(
            folder,
            [(cell.row, cell.column, summary) for cell, summary in done],
            title=self.title,
            about="The target is named on top; the sources are the seven other domains. All systems have the same "
            "data, seeds and network.",
            made={"command": command, "commit": commit()},
            lower_bound=LOWER_BOUND,
        )


def on_every_target(rows: Mapping[str, Mapping[str, Any]]) -> list[Cell]:
    """Runs of every row on every target with every seed; one CPU thread a run, so that several run side by side."""
    return [
        Cell(row, target, resolve({"target": target, "seed": seed, "device": "cpu", "threads": 1, **values}))
        for row, values in rows.items()
        for target in benchmarks.get("mini").domains
        for seed in SEEDS
    ]
