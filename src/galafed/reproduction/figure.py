"""A study that is a picture drawn from the histories of runs of another study."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.reproduction.accuracy import AccuracyStudy, Done
from galafed.reproduction.pages import write_files
from galafed.studies.base import Cell, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        """The picture; a panel without a finished run says so."""

        def draw(axes: Axes, column: str) -> None:
            axes.set_xlabel("round", fontsize=8)
            if found := [(cell, summary) for cell, summary in done if cell.column == column]:
                self.draw(axes, column, found)
            else:
                axes.set_xticks([])
                axes.set_yticks([])
                axes.text(0.5, 0.5, "not measured yet", ha="center", transform=axes.transAxes, color="0.5")

        return write_files(folder, {f"{self.name}.png": picture(self.title, self.columns, draw)})


def of_first_seed(done: Done) -> list[Mapping[str, Any]]:
    """The summary of the run with the first seed, if that is there."""
    return [summary for cell, summary in done if cell.run.seed == 0]


def picture(title: str, panels: Sequence[str], draw: Callable[[Axes, str], None]) -> bytes:
    """A PNG of panels, each drawn by `draw` and headed by its name."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = min(len(panels), 3)
    down = -(-len(panels) // across)
    figure = Figure(figsize=(4.2 * across, 3.2 * down), layout="constrained")
    FigureCanvasAgg(figure)
    places = figure.subplots(down, across, squeeze=False).flatten()
    for axes, panel in zip(places, panels, strict=False):
        axes.set_title(panel, fontsize=9)
        axes.grid(alpha=0.3)
        draw(axes, panel)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle(title, fontsize=10)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110, format="png")
    return buffer.getvalue()
