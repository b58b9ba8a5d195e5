"""The relevance of the sources over rounds for two targets of Digit-18, the five highest named."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from galafed.reproduction.accuracy import Done
from galafed.reproduction.figure import FigureStudy, of_first_seed
from galafed.studies.base import studies
from galafed.studies.digit_18 import Digit18Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 5


@studies.register("weights")
class WeightsStudy(FigureStudy):
    """GALA's w_n of the first seed."""

    title: ClassVar[str] = "Relevance of the sources over rounds, Digit-18 (its figure on weights)"
    source = Digit18Study
    rows = ("GALA",)
    columns = ("mnistm", "usps")

    def draw(self, axes: Axes, column: str, done: Done) -> None:
        axes.set_ylabel("relevance", fontsize=8)
        for summary in of_first_seed(done):
            relevance = summary["kept"]["relevance"]
            ranked = sorted(relevance, key=lambda source: -(relevance[source][-1] or 0))
            for place, source in enumerate(ranked):
                rounds = range(1, len(relevance[source]) + 1)
                style = {"color": f"C{place}", "label": source} if place < NAMED else {"color": "0.8", "zorder": 0}
                axes.plot(rounds, relevance[source], lw=1.2, **style)
            axes.legend(fontsize=7)
