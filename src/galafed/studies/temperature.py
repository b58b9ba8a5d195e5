"""How much τ matters: GALA with several values on two targets of each digit benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar

from galafed.reproduction.accuracy import AccuracyStudy, Done, Means, Values, last_rounds
from galafed.reproduction.collapse import collapses
from galafed.reproduction.editions import FIRST, OF_FIRST, Edition
from galafed.reproduction.history import accuracies, evenness
from galafed.reproduction.pages import signed
from galafed.reproduction.panels import picture
from galafed.studies.base import studies

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TAUS = (0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 3.0)
TARGETS = {"digit-five": ("mnistm", "svhn"), "digit-18": ("mnistm", "svhnxs")}
BEST = {"digit-five": (0.4, 1.0), "digit-18": (0.8, 1.0)}
"""Between which values the paper found the highest accuracy."""
WORSE = {
    "digit-five": ("larger values tend to degrade performance", (2.0, 3.0)),
    "digit-18": ("very low and excessively high values have reduced accuracy", (0.2, 3.0)),
}
"""What the paper says of other values, and of which we have it measured."""
SOON = 5
"""Rounds after which a run is looked at that is said to be fast."""
USUAL = 1.0
CLEAR = 1.0
"""Points by which it has to be lower to be called so."""
BROKEN = 20.0
"""Points by which it is lower where training broke down."""


@studies.register("temperature")
class TemperatureStudy(AccuracyStudy):
    """τ from 0.2, where sources count almost the same, to 3, where few count."""

    title: ClassVar[str] = "GALA with several τ (its figure on sensitivity)"
    about: ClassVar[str] = (
        "The rows are values of τ; the paper shows its figures as curves only. Its tables, and ours, have τ = 0.2 on "
        "Digit-Five, which is outside of what it calls best, and 1 on Digit-18."
    )

    reference: ClassVar[str] = f"τ = {USUAL:g}"

    def of_data(self) -> Edition:
        return OF_FIRST

    def rows(self) -> Mapping[str, Values]:
        return {_row(tau): {"gala": {"tau": tau}} for tau in TAUS}

    def columns(self) -> Mapping[str, Values]:
        return {
            _column(target, name): {"benchmark": name, "target": target, "rounds": 60, name: FIRST}
            for name, targets in TARGETS.items()
            for target in targets
        }

    def claims(self, done: Done) -> Iterable[str]:
        last = last_rounds(done)
        for name, targets in TARGETS.items():
            found = {t: {tau: last.get((_row(tau), _column(t, name))) for tau in TAUS} for t in targets}
            whole = {t: {tau: v for tau, v in values.items() if v is not None} for t, values in found.items()}
            if all(len(values) == len(TAUS) for values in whole.values()):
                yield _best(name, whole)
        for name in TARGETS:
            yield from _worse(name, last)
        yield from _uniform(done)
        yield from _faster(done)
        yield from collapses(done)

    def pictures(self, done: Done) -> Mapping[str, bytes]:
        """A panel for each benchmark."""
        last = last_rounds(done)
        return {"temperature.png": picture(self.title, list(TARGETS), lambda axes, name: _draw(axes, name, last))}


def _best(name: str, found: Mapping[str, Mapping[float, float]]) -> str:
    """Whether accuracy is highest between the values that the paper names, target by target."""
    low, high = BEST[name]
    told, clear = [], []
    for target, values in found.items():
        top = max(values.values())
        broken = [tau for tau in values if top - values[tau] > BROKEN]
        inside = fmean(value for tau, value in values.items() if low <= tau <= high)
        elsewhere = {tau: value for tau, value in values.items() if not low <= tau <= high}
        outside = fmean([v for tau, v in elsewhere.items() if tau not in broken] or elsewhere.values())
        without = f" (without τ = {' and '.join(f'{tau:g}' for tau in broken)}, which fail)" if broken else ""
        best = next(tau for tau in values if values[tau] == top)
        told.append(f"{target} {inside:.1f} there, {outside:.1f} elsewhere{without}, most with τ = {best:g}")
        clear.append(inside - outside > CLEAR)
    verdict = "confirmed" if all(clear) else "not confirmed"
    return (
        f"*On {name}, τ from {low:g} to {high:g} is best*: {'; '.join(told)}: {verdict}, of one seed each, and a "
        f"difference of less than {CLEAR:g} point is none."
    )


def _worse(name: str, last: Means) -> Iterable[str]:
    """Whether accuracy is lower with the values of which the paper says so."""
    words, taus = WORSE[name]
    columns = {target: _column(target, name) for target in TARGETS[name]}
    if any((_row(tau), column) not in last for tau in (*taus, USUAL) for column in columns.values()):
        return
    lost = {tau: {t: last[_row(tau), c] - last[_row(USUAL), c] for t, c in columns.items()} for tau in taus}
    every = [(f"{t} with τ = {tau:g}", points) for tau, by_target in lost.items() for t, points in by_target.items()]
    lower = [what for what, points in every if points < -CLEAR]
    told = "; ".join(f"τ = {tau:g} {signed(points)}" for tau, points in lost.items())
    verdict = f"on {', '.join(lower)} alone" if lower else "not confirmed"
    verdict = "confirmed" if len(lower) == len(every) else verdict
    yield f"*On {name}, {words}*: against τ = {USUAL:g}, {told}: {verdict}."


def _uniform(done: Done) -> Iterable[str]:
    """How even the weights are with the lowest τ, beside the usual one."""
    found: dict[tuple[str, str], tuple[float, int]] = {}
    for cell, summary in done:
        if relevance := summary.get("kept", {}).get("relevance"):
            weights = [values[-1] or 0.0 for values in relevance.values()]
            found[cell.row, cell.column] = evenness(weights), len(weights)
    told, lost, last = [], {}, last_rounds(done)
    for target in TARGETS["digit-18"]:
        low, usual = (found.get((_row(tau), _column(target, "digit-18"))) for tau in (min(TAUS), USUAL))
        at_low, at_usual = (last.get((_row(tau), _column(target, "digit-18"))) for tau in (min(TAUS), USUAL))
        if low and usual and at_low is not None and at_usual is not None:
            lost[target] = at_low - at_usual
            told.append(f"on {target} {low[0]:.1f} of {low[1]}, with τ = {USUAL:g} {usual[0]:.1f}")
    if told:
        yield (
            f"*On digit-18, very low τ gives overly uniform weights*: with τ = {min(TAUS):g} they are in the last "
            f"round as even as those of so many equal sources: {'; '.join(told)}. Accuracy: {signed(lost)}."
        )


def _faster(done: Done) -> Iterable[str]:
    """Whether a high τ is faster at first, as the paper says of Digit-18."""
    high = max(TAUS)
    curves = {(cell.row, cell.column): dict(accuracies(summary)) for cell, summary in done}
    found: dict[str, tuple[float, float]] = {}
    for target in TARGETS["digit-18"]:
        fast, usual = (curves.get((_row(tau), _column(target, "digit-18")), {}).get(SOON) for tau in (high, USUAL))
        if fast is not None and usual is not None:
            found[target] = fast, usual
    if len(found) == len(TARGETS["digit-18"]):
        told = ", ".join(f"{target} {fast:.1f} against {usual:.1f}" for target, (fast, usual) in found.items())
        ahead = sum(fast - usual > CLEAR for fast, usual in found.values())
        yield (
            f"*On digit-18, τ = {high:g} is faster at first*: after {SOON} rounds {told} with τ = {USUAL:g}: on "
            f"{ahead} of {len(found)}."
        )


def _row(tau: float) -> str:
    return f"τ = {tau:g}"


def _column(target: str, benchmark: str) -> str:
    return f"{target}, {benchmark}"


def _draw(axes: Axes, benchmark: str, last: Means) -> None:
    axes.set_xlabel("τ", fontsize=8)
    axes.set_xlim(0, max(TAUS) + min(TAUS))
    axes.set_ylabel("test accuracy, %", fontsize=8)
    for target in TARGETS[benchmark]:
        points = [(tau, last[place]) for tau in TAUS if (place := (_row(tau), _column(target, benchmark))) in last]
        axes.plot([tau for tau, _ in points], [value for _, value in points], "o-", lw=1.3, label=target)
    axes.legend(fontsize=7)
