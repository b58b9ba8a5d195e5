"""Accuracy over rounds, systems against each other, with the spread over seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.report.accuracy_table import cell_records
from galafed.reproduction.accuracy import Done
from galafed.reproduction.figure import FigureStudy
from galafed.reproduction.history import accuracies
from galafed.reproduction.pages import grid
from galafed.reproduction.steadiness import OTHER, OURS, Compared, claims, compare

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class CurvesStudy(FigureStudy):
    """A line for the mean over seeds, a band from the lowest to the highest."""

    about: ClassVar[str] = (
        "A line is the mean over seeds, a band goes from the lowest to the highest. The paper shows 500 rounds."
    )

    def draw(self, axes: Axes, column: str, done: Done) -> None:
        draw_curves(axes, self.rows, done)

    def records(self, done: Done) -> Sequence[Mapping[str, Any]]:
        """Every cell for each way to pick a round; how the curve moves stands with the last one alone."""
        compared = {each.target: each for each in compare(self.columns, done)}
        return [
            record | (_moving(record["row"], compared.get(record["column"])) if record["selection"] == "last" else {})
            for record in cell_records([(c.row, c.column, s) for c, s in done], self.source.published)
        ]

    def claims(self, done: Done) -> Iterable[str]:
        return claims(compare(self.columns, done))

    def told(self, done: Done) -> Sequence[str]:
        head = ["", f"last round of {OTHER}, %", f"{OURS} stays above it from round", f"{OURS} moves", f"{OTHER} moves"]
        rows = [
            [each.target, f"{each.level:.1f}", str(each.passed or "-"), f"{each.moves:.2f}", f"{each.moves_other:.2f}"]
            for each in compare(self.columns, done)
        ]
        words = "A system *moves* by so many points from a round to the next, mean over the second half of the rounds."
        return [words, grid(head, rows)]


def _moving(row: str, each: Compared | None) -> dict[str, Any]:
    """What the curve of a system tells beside its end."""
    if each is None or row not in (OURS, OTHER):
        return {}
    return {"moves": each.moves, "passed": each.passed} if row == OURS else {"moves": each.moves_other}


def draw_curves(axes: Axes, rows: Sequence[str], done: Done, *, dashed: Sequence[str] = ()) -> None:
    """Test accuracy over rounds of one column, a line for each row that has a run."""
    axes.set_ylabel("test accuracy, %", fontsize=8)
    for colour, row in enumerate(rows):
        at: defaultdict[int, list[float]] = defaultdict(list)
        for cell, summary in done:
            for number, value in accuracies(summary) if cell.row == row else ():
                at[number].append(value)
        if at:
            rounds = sorted(at)
            middle = [sum(at[r]) / len(at[r]) for r in rounds]
            axes.plot(rounds, middle, "--" if row in dashed else "-", lw=1.3, color=f"C{colour}", label=row)
            spread = ([min(at[r]) for r in rounds], [max(at[r]) for r in rounds])
            axes.fill_between(rounds, *spread, alpha=0.2, color=f"C{colour}", lw=0)
    if axes.lines:
        axes.legend(fontsize=7)
