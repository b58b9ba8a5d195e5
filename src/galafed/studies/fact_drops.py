"""FACT's accuracy from round to round on Digit-18: the pairs behind the largest rises and falls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.digits.domains import LIKE_MNIST, WITH_PHOTOGRAPHS
from galafed.reproduction.accuracy import Done
from galafed.reproduction.figure import FigureStudy
from galafed.reproduction.history import accuracies
from galafed.reproduction.pages import table_cell
from galafed.studies.base import studies
from galafed.studies.digit_18 import Digit18Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 3
SETTLED = 110 / 500
"""The share of the rounds that the paper's figure leaves out at the beginning."""
UNLIKE_MNISTM = ("svhn", "svhnxs", "svhnstack", "svhnm", "synxs")
NOTHING = 25.0
"""Percent of ten classes below which a model has learned next to nothing."""


@studies.register("fact-drops")
class FactDropsStudy(FigureStudy):
    """Bars of the change of accuracy in each round of the first seed, but for the first rounds; claims on all seeds."""

    title: ClassVar[str] = "Round-to-round change of FACT, Digit-18 (its figure on drops)"
    source = Digit18Study
    rows = ("FACT",)
    columns = ("mnistm", "svhnxs")

    about: ClassVar[str] = (
        "The picture is of the first seed, the verdict on all. As in the paper, the first 22 % of the rounds are left "
        "out, where accuracy rises from nothing."
    )

    def draw(self, axes: Axes, column: str, done: Done) -> None:
        axes.set_ylabel("change of accuracy, points", fontsize=8)
        axes.margins(y=0.2)  # room for numbers above and below
        first = [change for change in self._changes(done) if change["seed"] == 0]
        for change in first:
            axes.bar(change["round"], change["points"], width=1.0, color="C0")
        names = []
        for number, change in enumerate(_extremes(first), start=1):
            place, side = (change["round"], change["points"]), "bottom" if change["points"] > 0 else "top"
            axes.annotate(str(number), place, fontsize=6, ha="center", va=side)
            names.append(f"{number}  {' + '.join(change['pair'])}  {change['points']:+.1f}")
        axes.text(0.97, 0.96, "\n".join(names), fontsize=6, ha="right", va="top", transform=axes.transAxes)

    def records(self, done: Done) -> Sequence[Mapping[str, Any]]:
        return [
            table_cell(
                "FACT",
                change["column"],
                change["points"],
                unit="points",
                selection=f"seed {change['seed']}, round {change['round']}",
                rounds=change["rounds"],
                pair=change["pair"],
                before=change["before"],
            )
            for change in self._changes(done)
        ]

    def claims(self, done: Done) -> Iterable[str]:
        every = self._changes(done)
        on_mnistm, on_svhnxs = ([change for change in every if change["column"] == t] for t in self.columns)
        if on_mnistm:
            unlike = _with_any(UNLIKE_MNISTM, on_mnistm)
            yield _claim(
                "On mnistm selecting SVHN- domains and SYNXS often results in substantial drops",
                unlike, on_mnistm, falls=True,
            )  # fmt: skip
            alike = _with_both((*LIKE_MNIST, *WITH_PHOTOGRAPHS), on_mnistm)
            yield _typically("On mnistm MNIST-like and -M domains typically lead to improvements", alike, on_mnistm)
        if on_svhnxs:
            both, useful = _with_both(WITH_PHOTOGRAPHS, on_svhnxs), _with_any(("synxs",), on_svhnxs)
            yield _claim(
                "On svhnxs the largest drops occur when both sources are -M domains", both, on_svhnxs, falls=True
            )
            yield _claim("SYNXS is in all pairs with the largest rises", useful, on_svhnxs, falls=False)

    def _changes(self, done: Done) -> list[dict[str, Any]]:
        """Every round after the first ones: by how much accuracy changed, and who took part."""
        found = []
        for cell, summary in done:
            tested = accuracies(summary)
            for (_, before), (now, value) in pairwise(tested):
                if now > SETTLED * len(tested):
                    pair = summary["kept"]["pair"][now - 1]
                    change = {"round": now, "rounds": len(tested), "points": round(value - before, 2), "pair": pair}
                    change["before"] = round(before, 2)
                    found.append({"column": cell.column, "seed": cell.run.seed, **change})
        return found


def _extremes(changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The largest falls, then the largest rises."""
    ranked = sorted(changes, key=lambda change: float(change["points"]))
    return [*ranked[:NAMED], *ranked[: -NAMED - 1 : -1]]


def _with_any(names: Sequence[str], changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rounds in which one of these took part."""
    return [change for change in changes if any(name in names for name in change["pair"])]


def _with_both(names: Sequence[str], changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rounds in which none but these took part."""
    return [change for change in changes if all(name in names for name in change["pair"])]


def _claim(words: str, such: Sequence[dict[str, Any]], changes: Sequence[dict[str, Any]], *, falls: bool) -> str:
    """How many of the largest falls, or rises, of each seed are such, and what rounds with such a pair bring."""
    seeds = sorted({change["seed"] for change in changes})
    every = (_extremes([change for change in changes if change["seed"] == seed]) for seed in seeds)
    largest = [part[:NAMED] if falls else part[NAMED:] for part in every]
    hits, of = sum(change in such for part in largest for change in part), sum(map(len, largest))
    first = listed([part[0] for part in largest])
    return f"*{words}*: {hits} of {of}, the largest of each seed {first}. {_beside(such, changes)}."


def _typically(words: str, such: Sequence[dict[str, Any]], changes: Sequence[dict[str, Any]]) -> str:
    """In how many rounds with such a pair accuracy rises."""
    rises = sum(change["points"] > 0 for change in such)
    return f"*{words}*: in {rises} of {len(such)} rounds accuracy rises. {_beside(such, changes)}."


def _beside(such: Sequence[dict[str, Any]], changes: Sequence[dict[str, Any]]) -> str:
    """How often such a pair was drawn, and the mean change of its rounds next to that of all others."""
    others = [change for change in changes if change not in such]
    drawn = f"Such a pair was drawn in {len(such)} of {len(changes)} rounds"
    if not (such and others):
        return drawn
    theirs, rest = (fmean(change["points"] for change in part) for part in (such, others))
    return f"{drawn}: {theirs:+z.1f} points a round on average, against {rest:+z.1f} in the others"


def listed(changes: Sequence[Mapping[str, Any]]) -> str:
    """Pairs and changes; of those from next to nothing it is told."""

    def points(change: Mapping[str, Any]) -> str:
        early = change["points"] > 0 and change["before"] < NOTHING
        return f"{change['points']:+.1f}" + (f", from {change['before']:.0f} %" if early else "")

    return ", ".join(f"{' + '.join(change['pair'])} ({points(change)})" for change in changes)
