"""FACT's accuracy from round to round on Digit-18: the pairs behind the largest rises and falls."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from galafed.reproduction.accuracy import Done
from galafed.reproduction.figure import FigureStudy, of_first_seed
from galafed.reproduction.history import accuracies
from galafed.studies.base import studies
from galafed.studies.digit_18 import Digit18Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 3


@studies.register("fact-drops")
class FactDropsStudy(FigureStudy):
    """Bars of the change of accuracy in each round of the first seed."""

    title: ClassVar[str] = "Round-to-round change of FACT, Digit-18 (its figure on drops)"
    source = Digit18Study
    rows = ("FACT",)
    columns = ("mnistm", "svhnxs")

    def draw(self, axes: Axes, column: str, done: Done) -> None:
        axes.set_ylabel("change of accuracy, points", fontsize=8)
        axes.margins(y=0.55)  # room for names above and below
        for summary in of_first_seed(done):
            tested = accuracies(summary)
            changes = {now: value - before for (_, before), (now, value) in pairwise(tested)}
            axes.bar(list(changes), list(changes.values()), width=1.0)
            ranked = sorted(changes, key=lambda number: changes[number])
            for number in {*ranked[:NAMED], *ranked[-NAMED:]}:
                pair = " + ".join(summary["kept"]["pair"][number - 1])
                side = "bottom" if changes[number] > 0 else "top"
                place = (number, changes[number])
                axes.annotate(pair, place, fontsize=5, rotation=90, ha="center", va=side)
