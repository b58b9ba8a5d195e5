"""A study that is a picture drawn from the histories of runs of another study."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.reproduction.accuracy import AccuracyStudy, Done
from galafed.reproduction.editions import Edition
from galafed.reproduction.pages import as_json, listed, machines, page, write_files
from galafed.reproduction.panels import picture
from galafed.studies.base import Cell, Study, commit

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class FigureStudy(Study):
    """One panel for each column; runs are taken from the table they belong to and are never made twice."""

    source: ClassVar[type[AccuracyStudy]]
    about: ClassVar[str]
    rows: ClassVar[Sequence[str]]
    columns: ClassVar[Sequence[str]]
    first_seed: ClassVar[bool] = False
    """Whether the picture is of the first seed alone."""

    @abstractmethod
    def draw(self, axes: Axes, column: str, done: Done) -> None:
        """One panel."""

    def cells(self) -> Sequence[Cell]:
        """The runs of the table that the picture needs."""
        cells = [c for c in self.source().cells() if c.row in self.rows and c.column in self.columns]
        return [cell for cell in cells if cell.run.seed == 0] if self.first_seed else cells

    def keeps(self, folder: Path) -> Mapping[str, Any]:
        """What the table keeps of its runs."""
        return self.source().keeps(folder)

    @classmethod
    def kept_by(cls) -> object:
        return cls.source.kept_by()

    @abstractmethod
    def records(self, done: Done) -> Sequence[Mapping[str, Any]]:
        """The numbers behind the picture, for table.json."""

    def of_data(self) -> Edition | None:
        """What the table says of them."""
        return self.source().of_data()

    def claims(self, done: Done) -> Iterable[str]:
        """What the paper says of its figure, each sentence with what was measured."""
        return ()

    def told(self, done: Done) -> Sequence[str]:
        """Paragraphs below the picture."""
        return ()

    def write(self, folder: Path, done: Done, *, command: str) -> Sequence[Path]:
        """The picture, a panel without a finished run says so; and its page."""

        def draw(axes: Axes, column: str) -> None:
            axes.set_xlabel("round", fontsize=8)
            if found := [(cell, summary) for cell, summary in done if cell.column == column]:
                self.draw(axes, column, found)
            else:
                axes.set_xticks([])
                axes.set_yticks([])
                axes.text(0.5, 0.5, "not measured yet", ha="center", transform=axes.transAxes, color="0.5")

        claims = list(self.claims(done))
        text = page(
            self.title,
            f"Made by `{command}` at commit {commit()} from {len(done)} runs of the study `{self.source.name}` on "
            f"{machines(summary for _, summary in done)}. {self.about} {self.of_data() or ''}".strip(),
            f"![{self.title}]({self.name}.png)",
            *self.told(done),
            "## Verdict" if claims else "",
            listed(claims),
        )
        content: dict[str, str | bytes] = {
            f"{self.name}.png": picture(self.title, self.columns, draw),
            "table.json": as_json(self.records(done)),
            "table.md": text,
        }
        return write_files(folder, content)
