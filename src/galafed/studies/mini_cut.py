"""The federated systems of `mini` with the network cut as most of their papers cut theirs: a linear predictor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from galafed.report.accuracy_table import write_table
from galafed.studies.base import Cell, commit, studies
from galafed.studies.mini import FEDERATED, on_every_target

ROWS = {
    row: {**values, "network": "small_linear"}
    for row, values in ({"source-only": {"algorithm": "source_only"}} | dict(FEDERATED)).items()
}


@studies.register("mini-cut")
class MiniCutStudy:
    """Does a system fall behind because of where the network is cut?"""

    name: ClassVar[str]
    title: ClassVar[str] = "mini: federated systems with a linear predictor"

    def cells(self) -> Sequence[Cell]:
        """Every row on every target."""
        return on_every_target(ROWS)

    def write(self, folder: Path, done: Sequence[tuple[Cell, Mapping[str, Any]]], *, command: str) -> Sequence[Path]:
        """The table, to lay beside that of the study `mini`."""
        return write_table(
            folder,
            [(cell.row, cell.column, summary) for cell, summary in done],
            title=self.title,
            about="The network `small_linear` has the layers of that of the study `mini`; all but the last one belong "
            "to the extractor.",
            made={"command": command, "commit": commit()},
            lower_bound=dict.fromkeys(FEDERATED, "source-only"),
        )
