"""How often each criterion was right, over targets of which the test labels are known: a measurement, not a choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from galafed.tuning.criteria.base import criteria

if TYPE_CHECKING:
    from galafed.tuning.judging import Judged

NEAR = 0.01
"""A pick that loses no more than this to the oracle's is as good as right."""

HEAD = "| criterion | right | within 1 point | mean accuracy | lost on average | at worst |"


def compare(by_target: Mapping[str, Sequence[Judged]]) -> list[dict[str, Any]]:
    """For each criterion and for two ways to do without: how often right, how often near, what was lost."""
    from galafed.tuning.judging import oracle, pick

    best = {target: oracle(judged).accuracy for target, judged in by_target.items()}
    rows = []
    for name in criteria.names():
        picked = {target: pick(judged, name) for target, judged in by_target.items()}
        found = {target: run.accuracy for target, run in picked.items() if run is not None}
        rows.append(_row(name, found, best))
    plain = {t: run.accuracy for t, runs in by_target.items() for run in runs if set(run.settings.values()) == {1.0}}
    rows.append(_row("(always 1 and 1)", plain, best))
    chance = {target: fmean(run.accuracy for run in judged) for target, judged in by_target.items()}
    rows.append(_row("(at random)", chance, best) | {"right": None, "near": None})
    return sorted(rows, key=lambda row: (row["loss"] is None, row["loss"]))


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The comparison as lines of Markdown."""
    return [
        HEAD,
        "|---" * 6 + "|",
        *(
            f"| {row['criterion']} | {_of(row['right'], row['targets'])} | {_of(row['near'], row['targets'])} | "
            f"{_points(row['accuracy'])} % | {_points(row['loss'])} | {_points(row['worst'])} |"
            for row in rows
        ),
    ]


def _row(name: str, found: Mapping[str, float], best: Mapping[str, float]) -> dict[str, Any]:
    losses = [best[target] - accuracy for target, accuracy in found.items()]
    return {
        "criterion": name,
        "targets": len(losses),
        "right": sum(loss <= 0 for loss in losses),
        "near": sum(loss <= NEAR for loss in losses),
        "accuracy": round(fmean(found.values()), 4) if found else None,
        "loss": round(fmean(losses), 4) if losses else None,
        "worst": round(max(losses), 4) if losses else None,
    }


def _of(count: int | None, total: int) -> str:
    return "-" if count is None else f"{count} of {total}"


def _points(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
