"""A study that is a picture drawn from the histories of runs of another study."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.reproduction.accuracy import AccuracyStudy
from galafed.runs.files import write_atomically
from galafed.studies.base import Cell, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Done = Sequence[tuple[Cell, Mapping[str, Any]]]


class FigureStudy(Study):
    """One panel for each column; runs are taken from the table they belong to and are never made twice."""

    source: ClassVar[type[AccuracyStudy]]
    rows: ClassVar[Sequence[str]]
    columns: ClassVar[Sequence[str]]

    @abstractmethod
    def draw(self, axes: Axes, column: str, done: Done) -> None:
        """One panel."""

    def cells(self) -> Sequence[Cell]:
        """The runs of the table that the picture needs."""
        return [c for c in self.source().cells() if c.row in self.rows and c.column in self.columns]

    def keeps(self, folder: Path) -> Mapping[str, Any]:
        """What the table keeps of its runs."""
        return self.source().keeps(folder)

    @classmethod
    def kept_by(cls) -> object:
        return cls.source.kept_by()

    def write(self, folder: Path, done: Done, *, command: str) -> Sequence[Path]:
        """The picture; a panel without a finished run stays empty."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        across = min(len(self.columns), 3)
        down = -(-len(self.columns) // across)
        figure = Figure(figsize=(4.2 * across, 3.2 * down), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(down, across, squeeze=False).flatten()
        for axes, column in zip(panels, self.columns, strict=False):
            axes.set_title(column, fontsize=9)
            axes.set_xlabel("round", fontsize=8)
            axes.grid(alpha=0.3)
            self.draw(axes, column, [(cell, summary) for cell, summary in done if cell.column == column])
        for axes in panels[len(self.columns) :]:
            axes.set_axis_off()
        figure.suptitle(self.title, fontsize=10)
        picture = io.BytesIO()
        figure.savefig(picture, dpi=110, format="png")
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / f"{self.name}.png", picture.getvalue())
        return [folder / f"{self.name}.png"]
