"""The relevance of the sources over rounds for two targets of Digit-18, the five highest named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.reproduction.accuracy import Done
from galafed.reproduction.figure import FigureStudy
from galafed.reproduction.pages import table_cell
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
    first_seed = True

    about: ClassVar[str] = "The five sources with the highest relevance in the last round are named."

    def draw(self, axes: Axes, column: str, done: Done) -> None:
        axes.set_ylabel("relevance", fontsize=8)
        for _, summary in done:
            relevance = summary["kept"]["relevance"]
            ranked = sorted(relevance, key=lambda source: -(relevance[source][-1] or 0))
            for place, source in enumerate(ranked):
                rounds = range(1, len(relevance[source]) + 1)
                style = {"color": f"C{place}", "label": source} if place < NAMED else {"color": "0.8", "zorder": 0}
                axes.plot(rounds, relevance[source], lw=1.2, **style)
            axes.legend(fontsize=7)

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
            top = ", ".join(f"{source} {value:.2f}" for source, value in _highest(found["mnistm"], -1))
            yield f"*For mnistm MNIST-like and -M domains have the highest weights*: in the last round {top}."
        if "usps" in found:
            early, late = (
                ", ".join(f"{source} {value:.2f}" for source, value in _highest(found["usps"], at)) for at in (0, -1)
            )
            yield (
                "*For usps simple domains like MNIST and TMNIST dominate early, later weights shift toward USPSM and "
                f"SYN*: first round {early}; last round {late}."
            )


def _highest(relevance: Mapping[str, Sequence[float | None]], at: int) -> list[tuple[str, float]]:
    """The sources with the highest relevance in a round."""
    ranked = sorted(((source, values[at] or 0.0) for source, values in relevance.items()), key=lambda item: -item[1])
    return ranked[:NAMED]
