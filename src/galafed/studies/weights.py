"""The relevance of the sources over rounds for two targets of Digit-18, the five highest named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.digits.domains import LIKE_MNIST, WITH_PHOTOGRAPHS
from galafed.reproduction.accuracy import Done
from galafed.reproduction.figure import FigureStudy
from galafed.reproduction.pages import table_cell
from galafed.studies import similarity
from galafed.studies.base import studies
from galafed.studies.digit_18 import Digit18Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 5
SIMPLE = ("mnist", "tmnist")
LATER = ("uspsm", "syn")
EARLY = 10
"""Rounds, the untrained first one among them."""


@studies.register("weights")
class WeightsStudy(FigureStudy):
    """GALA's w_n of the first seed."""

    title: ClassVar[str] = "Relevance of the sources over rounds, Digit-18 (its figure on weights)"
    source = Digit18Study
    rows = ("GALA",)
    columns = ("mnistm", "usps")
    first_seed = True

    about: ClassVar[str] = (
        "The first seed. The five sources with the highest relevance in the last round are named, * where their images "
        "are not the paper's."
    )

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self.likeness: dict[str, Mapping[str, float]] = {}

    def prepare(self, out: Path) -> None:
        """How well a model of each domain alone does on the others, where that was measured."""
        self.likeness = similarity.measured(out)

    def draw(self, axes: Axes, column: str, done: Done) -> None:
        axes.set_ylabel("relevance", fontsize=8)
        for _, summary in done:
            relevance = summary["kept"]["relevance"]
            ranked = sorted(relevance, key=lambda source: -(relevance[source][-1] or 0))
            for place, source in enumerate(ranked):
                rounds = range(1, len(relevance[source]) + 1)
                named = {"color": f"C{place}", "label": _starred(source, summary)}
                style = named if place < NAMED else {"color": "0.8", "zorder": 0}
                axes.plot(rounds, relevance[source], lw=1.2, **style)
            axes.legend(fontsize=6, ncols=2)
            axes.set_ylim(top=1.25 * axes.get_ylim()[1])  # room for the names

    def records(self, done: Done) -> Sequence[Mapping[str, Any]]:
        return [
            table_cell(
                source,
                cell.column,
                values[-1] or 0.0,
                unit="share",
                selection="last round",
                rounds=len(values),
                stand_in=source in summary.get("notes", {}),
                first=values[0],
            )
            for cell, summary in done
            for source, values in summary["kept"]["relevance"].items()
        ]

    def claims(self, done: Done) -> Iterable[str]:
        found = {cell.column: summary["kept"]["relevance"] for cell, summary in done}
        if "mnistm" in found:
            top = _highest(found["mnistm"], -1)
            such = (*LIKE_MNIST, *WITH_PHOTOGRAPHS)
            alike, known = (sum(source in such for source in names) for names in (dict(top), found["mnistm"]))
            yield (
                f"*For mnistm MNIST-like and -M domains have the highest weights*: {alike} of the {len(top)} highest "
                f"in the last round: {_told(top)}. Of all {len(found['mnistm'])} sources {known} are such."
            )
            if told := self._most_alike("mnistm", dict(top)):
                yield told
        if "usps" in found:
            usps = found["usps"]
            early = _highest(usps, 0)
            rounds = min(EARLY, len(next(iter(usps.values()))))
            first = sum(_highest(usps, number)[0][0] in SIMPLE for number in range(rounds))
            yield (
                f"*For usps simple domains like MNIST and TMNIST dominate early*: one of them is the highest in "
                f"{first} of the first {rounds} rounds: {'confirmed' if 2 * first > rounds else 'not confirmed'}. In "
                f"the first round, where equal weights would be {1 / len(usps):.2f}: {_told(early)}; in round "
                f"{rounds}: {_told(_highest(usps, rounds - 1))}."
            )
            moved = {source: (usps[source][0] or 0.0, usps[source][-1] or 0.0) for source in LATER if source in usps}
            told = ", ".join(f"{source} {first:.2f} to {last:.2f}" for source, (first, last) in moved.items())
            yield (
                f"*Later weights shift toward USPSM and SYN*: {told}: {sum(b > a for a, b in moved.values())} of "
                f"{len(moved)}; the highest in the last round are {_told(_highest(usps, -1))}."
            )

    def _most_alike(self, target: str, top: Mapping[str, float]) -> str:
        """Of the sources with the highest weights, how many are those whose models do best on the target."""
        known = {source: row[target] for source, row in self.likeness.items() if source != target}
        if not top.keys() <= known.keys():
            return ""
        alike = sorted(known, key=lambda source: -known[source])[: len(top)]
        told = ", ".join(f"{source} {100 * known[source]:.1f}" for source in alike)
        both = sum(source in top for source in alike)
        return (
            f"*For {target} the highest weights align with the most similar domains*: {both} of the {len(top)} highest "
            f"are among the {len(alike)} whose models, trained on them alone, do best there, in %: {told} "
            "([similarity](../similarity/table.md), with the first edition of the data)."
        )


def _starred(source: str, summary: Mapping[str, Any]) -> str:
    """The name of a source, with * where its images are not the paper's."""
    return source + "*" * (source in summary.get("notes", {}))


def _told(weights: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{source} {value:.2f}" for source, value in weights)


def _highest(relevance: Mapping[str, Sequence[float | None]], at: int) -> list[tuple[str, float]]:
    """The sources with the highest relevance in a round."""
    ranked = sorted(((source, values[at] or 0.0) for source, values in relevance.items()), key=lambda item: -item[1])
    return ranked[:NAMED]
