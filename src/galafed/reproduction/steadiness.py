"""What the paper says of its curves: who gets there first, and whose accuracy moves between rounds and seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from galafed.reproduction.accuracy import Done
from galafed.reproduction.history import accuracies

OURS, OTHER = "GALA", "FACT"
APART = 5
"""Points between the other's seeds from which on their mean tells little."""
EARLY = 100 / 500
"""The share of the rounds within which the paper says so."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Two systems on one target."""

    target: str
    level: float
    """The other's accuracy in its last round, in percent."""
    passed: int | None
    """The first round from which on ours is above that to the end."""
    after: float
    """Points that ours gains from that round to the last; 0 without it."""
    passed_best: int | None
    """The same for the other's best seed."""
    lead: float
    """Points by which ours is above that in its last round."""
    rounds: int
    moves: float
    """Points by which our accuracy changes from a round to the next, mean over the second half of the rounds."""
    moves_other: float
    ends: Sequence[float]
    """Our accuracy in the last round, of every seed, in percent."""
    ends_other: Sequence[float]


def compare(columns: Iterable[str], done: Done) -> list[Compared]:
    """Of every target that both systems have run on; accuracies are means over seeds, changes are not."""
    found = []
    for column in columns:
        ours, other = (curves_of(row, column, done) for row in (OURS, OTHER))
        if ours and other:
            ends, ends_other = ([curve[-1] for curve in curves] for curves in (ours, other))
            level = fmean(ends_other)
            middle = [fmean(values) for values in zip(*ours, strict=False)]
            passed = _above(level, middle)
            found.append(
                Compared(
                    target=column,
                    level=level,
                    passed=passed,
                    after=middle[-1] - middle[passed - 1] if passed else 0.0,
                    passed_best=_above(max(ends_other), middle),
                    lead=middle[-1] - level,
                    rounds=len(middle),
                    moves=moves_of(ours),
                    moves_other=moves_of(other),
                    ends=ends,
                    ends_other=ends_other,
                )
            )
    return found


def _above(level: float, curve: Sequence[float]) -> int | None:
    """The round from which on a curve is above a level to the end; none where it ends there, as shown, or below."""
    if round(curve[-1] - level, 1) <= 0:
        return None
    return max((number for number, value in enumerate(curve, start=1) if value <= level), default=0) + 1


def claims(found: Sequence[Compared]) -> Iterator[str]:
    """The paper's sentences on its curves, each with what was measured."""
    if not found:
        return
    ahead = [each for each in found if each.passed]
    passed = ", ".join(f"{each.target} {each.passed} ({each.lead:+.1f})" for each in ahead)
    rounds = found[0].rounds
    early = sum(each.passed is not None and each.passed <= EARLY * rounds for each in found)
    yield (
        f"*{OURS} converges quickly and surpasses {OTHER}'s final accuracy within 100 of 500 rounds*: here for good on "
        f"{len(ahead)} of {len(found)} targets"
        + (f", from round (points in the end): {passed}" if ahead else "")
        + f"; within as small a share of the rounds, {EARLY * rounds:.0f} of {rounds}, on {early}."
    )
    if ahead:
        gains = [each.after for each in ahead]
        more = sum(round(gain, 1) > 0 for gain in gains)
        yield (
            f"*It continues to improve slightly thereafter*: by {min(gains):+z.1f} to {max(gains):+z.1f} points to the "
            f"last round; it improves on {more} of {len(ahead)}."
        )
    for each in found:
        if _spread(each.ends_other) > APART:
            best = f"from round {each.passed_best} on" if each.passed_best else "in the end not"
            yield (
                f"On {each.target} the last rounds of {OTHER}'s seeds lie {_spread(each.ends_other):.0f} points apart, "
                f"so the lead over their mean tells little: above the best of them {OURS} is {best}."
            )
    steadier = sum(each.moves < each.moves_other for each in found)
    yield (
        f"*{OURS}'s accuracy is stable between rounds, {OTHER} fluctuates*: from a round to the next, "
        f"{fmean(each.moves for each in found):.2f} points against {fmean(each.moves_other for each in found):.2f} "
        f"on average; {OURS} moves less on {steadier} of {len(found)}."
    )
    if several := [each for each in found if min(len(each.ends), len(each.ends_other)) > 1]:
        closer = sum(_spread(each.ends) < _spread(each.ends_other) for each in several)
        told = (f"{each.target} {_range(each.ends)} against {_range(each.ends_other)}" for each in several)
        yield (
            f"*{OURS}'s accuracy is stable across 10 runs*: last rounds from the lowest seed to the highest, {OURS} "
            f"against {OTHER}: {'; '.join(told)}. Seeds of {OURS} lie closer together on {closer} of {len(several)}"
            + ("." if _as_many(several) else ", but of more seeds the lowest and the highest lie further apart anyway.")
        )


def _as_many(found: Iterable[Compared]) -> bool:
    return all(len(each.ends) == len(each.ends_other) for each in found)


def _spread(ends: Sequence[float]) -> float:
    return max(ends) - min(ends)


def _range(ends: Sequence[float]) -> str:
    return f"{min(ends):.1f} to {max(ends):.1f} ({len(ends)} seeds)"


def curves_of(row: str, column: str, done: Done) -> list[list[float]]:
    """Accuracies of the runs of a cell, round by round, in percent."""
    every = [accuracies(summary) for cell, summary in done if (cell.row, cell.column) == (row, column)]
    return [[value for _, value in curve] for curve in every if len(curve) > 1]


def moves_of(curves: Iterable[Sequence[float]]) -> float:
    """Points by which accuracy changes from a round to the next, mean over the second half of the rounds."""
    return fmean(fmean(abs(b - a) for a, b in pairwise(curve[(len(curve) - 1) // 2 :])) for curve in curves)
