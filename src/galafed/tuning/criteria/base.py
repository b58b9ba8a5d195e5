"""What a criterion is: a number from what can be known of a finished run without target labels; more is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from galafed.lazy import torch
from galafed.registry import Registry


@dataclass(frozen=True)
class Evidence:
    """A finished run seen without target labels."""

    probabilities: torch.Tensor
    """Of the target's unlabelled training images under the final model: [n, C]."""
    features: torch.Tensor
    """Of the same images: [n, d]."""
    history: Sequence[Mapping[str, Any]]
    """The lines of metrics.jsonl."""


class Criterion(Protocol):
    """One criterion; `score` is None where a run lacks what it needs."""

    name: ClassVar[str]
    about: ClassVar[str]

    def score(self, evidence: Evidence) -> float | None: ...


criteria: Registry[type[Criterion]] = Registry("criterion", "galafed.tuning.criteria")


def entropies(probabilities: torch.Tensor) -> torch.Tensor:
    """H(p) = -Σ p log p in nats, of the last axis."""
    each: torch.Tensor = torch.special.entr(probabilities)
    return each.sum(dim=-1)


def late_mean(history: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The mean of a number over the last tenth of the rounds, three at least; one round alone is noisy."""
    values = [line[key] for line in history if line.get(key) is not None]
    last = values[-max(3, len(values) // 10) :]
    return sum(last) / len(last) if last else None
