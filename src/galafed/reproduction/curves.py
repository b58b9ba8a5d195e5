"""Accuracy over rounds, systems against each other, with the spread over seeds."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from galafed.reproduction.figure import Done, FigureStudy
from galafed.reproduction.history import accuracies

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class CurvesStudy(FigureStudy):
    """A line for the mean over seeds, a band from the lowest to the highest."""

    def draw(self, axes: Axes, column: str, done: Done) -> None:
        axes.set_ylabel("test accuracy, %", fontsize=8)
        for colour, row in enumerate(self.rows):
            at: defaultdict[int, list[float]] = defaultdict(list)
            for cell, summary in done:
                for number, value in accuracies(summary) if cell.row == row else ():
                    at[number].append(value)
            if at:
                rounds = sorted(at)
                middle = [sum(at[r]) / len(at[r]) for r in rounds]
                axes.plot(rounds, middle, lw=1.3, color=f"C{colour}", label=row)
                spread = ([min(at[r]) for r in rounds], [max(at[r]) for r in rounds])
                axes.fill_between(rounds, *spread, alpha=0.2, color=f"C{colour}", lw=0)
        if axes.lines:
            axes.legend(fontsize=7)
