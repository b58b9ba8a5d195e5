"""How much τ matters: GALA with several values on two targets of each digit benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar

from galafed.reproduction.accuracy import AccuracyStudy, Done, Means, Values, last_rounds
from galafed.reproduction.collapse import collapses
from galafed.reproduction.figure import picture
from galafed.reproduction.pages import signed
from galafed.studies.base import studies

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TAUS = (0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 3.0)
TARGETS = {"digit-five": ("mnistm", "svhn"), "digit-18": ("mnistm", "svhnxs")}
BEST = {"digit-five": (0.4, 1.0), "digit-18": (0.8, 1.0)}
"""Between which values the paper found the highest accuracy."""
WORSE = {"digit-five": (2.0, 3.0), "digit-18": (0.2, 3.0)}
"""Values with which the paper says accuracy is lower."""
USUAL = 1.0
CLEAR = 1.0
"""Points by which it has to be lower to be called so."""
BROKEN = 20.0
"""Points by which it is lower where training broke down."""


@studies.register("temperature")
class TemperatureStudy(AccuracyStudy):
    """τ from 0.2, where sources count almost the same, to 3, where few count."""

    title: ClassVar[str] = "GALA with several τ (its figure on sensitivity)"
    about: ClassVar[str] = "The rows are values of τ; the paper shows its figures as curves only."

    reference: ClassVar[str] = f"τ = {USUAL:g}"

    def rows(self) -> Mapping[str, Values]:
        return {_row(tau): {"gala": {"tau": tau}} for tau in TAUS}

    def columns(self) -> Mapping[str, Values]:
        return {
            _column(target, name): {"benchmark": name, "target": target, "rounds": 60}
            for name, targets in TARGETS.items()
            for target in targets
        }

    def claims(self, done: Done) -> Iterable[str]:
        last = last_rounds(done)
        for name, targets in TARGETS.items():
            columns = [_column(target, name) for target in targets]
            if not all((_row(tau), column) in last for tau in TAUS for column in columns):
                continue
            low, high = BEST[name]
            means = {tau: fmean(last[_row(tau), column] for column in columns) for tau in TAUS}
            best, worst = max(TAUS, key=means.__getitem__), min(TAUS, key=means.__getitem__)
            inside = fmean(means[tau] for tau in TAUS if low <= tau <= high)
            outside = fmean(means[tau] for tau in TAUS if not low <= tau <= high)
            yield (
                f"*On {name}, τ from {low:g} to {high:g} is best*: {inside:.1f} there on average, {outside:.1f} "
                f"elsewhere; the highest is {means[best]:.1f} with τ = {best:g}, the lowest {means[worst]:.1f} with "
                f"τ = {worst:g}: {'confirmed' if low <= best <= high and inside > outside else 'not confirmed'}. "
                f"{_spread(means)}, of one seed each."
            )
        for name, tau in ((name, tau) for name, taus in WORSE.items() for tau in taus):
            told = {t: [last.get((_row(value), _column(t, name))) for value in (tau, USUAL)] for t in TARGETS[name]}
            lost = {t: a - b for t, (a, b) in told.items() if a is not None and b is not None}
            if len(lost) == len(told):
                lower = [target for target, points in lost.items() if points < -CLEAR]
                verdict = f"on {', '.join(lower)} alone" if lower else "not confirmed"
                verdict = "confirmed" if len(lower) == len(lost) else verdict
                yield f"*On {name}, τ = {tau:g} lowers accuracy*: {signed(lost)} against τ = {USUAL:g}: {verdict}."
        yield from collapses(done)

    def pictures(self, done: Done) -> Mapping[str, bytes]:
        """A panel for each benchmark."""
        last = last_rounds(done)
        return {"temperature.png": picture(self.title, list(TARGETS), lambda axes, name: _draw(axes, name, last))}


def _spread(means: Mapping[float, float]) -> str:
    """Within how many points accuracies lie, but for values of τ with which training broke down."""
    top = max(means.values())
    broken = [tau for tau in means if top - means[tau] > BROKEN]
    named = f"Without τ = {' and '.join(f'{tau:g}' for tau in broken)} they" if broken else "All values"
    return f"{named} lie within {top - min(v for tau, v in means.items() if tau not in broken):.1f} points"


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
