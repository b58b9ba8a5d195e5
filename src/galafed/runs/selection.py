"""Picking a round without labels, and, marked as an oracle, with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CRITERIA: Mapping[str, int] = {"discrepancy": -1, "entropy": -1, "information": +1}
"""Label-free criteria and whether more of them is better (+1) or less (-1)."""

WARM_UP = 0.1
"""The first tenth of the rounds is not picked from: untrained predictors agree because they know nothing."""

TOLD = 0.1
"""Nor is a round whose predictions tell less than this share of what there is to tell: predictors agree there, too."""

History = Sequence[Mapping[str, Any]]


def picks(history: History, rounds: int) -> dict[str, Mapping[str, Any]]:
    """For each criterion that was measured, the metrics of the round it picks; on a tie the latest."""
    measured = [line for line in history if line.get("information") is not None]
    settled = [line for line in measured if line["round"] > WARM_UP * rounds] or measured
    telling = [line for line in settled if told(line) >= TOLD] or settled
    result = {}
    for criterion, sign in CRITERIA.items():
        candidates = [line for line in telling if line.get(criterion) is not None]
        if candidates:
            result[criterion] = max(candidates, key=lambda line: (sign * line[criterion], line["round"]))
    return result


def told(line: Mapping[str, Any]) -> float:
    """I / H: the share that predictions tell, I, of what there is to tell, the entropy H of the mean prediction.

    H is I and the mean entropy. 0 where all images are given the same answer, 1 where every answer is sure.
    """
    information, entropy = line["information"], line["entropy"]
    return float(information / (information + entropy)) if information + entropy > 0 else 0.0


def selected(history: History, rounds: int, criterion: str) -> Mapping[str, Any] | None:
    """The metrics of the round that the run's criterion picks, or information where that was not measured."""
    found = picks(history, rounds)
    return found.get(criterion) or found.get("information")


def best(history: History) -> Mapping[str, Any] | None:
    """The metrics of the round with the highest test accuracy, the earliest on a tie: an *oracle*, never a result."""
    measured = [line for line in history if line.get("accuracy") is not None]
    return max(measured, key=lambda line: line["accuracy"], default=None)
