"""Who takes part in a round, where not every source does: drawn from the run's seed, uniformly or by relevance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from galafed.lazy import torch

if TYPE_CHECKING:
    from galafed.runs.selection import History

Rule = Literal["uniform", "relevance"]

LEAST = 0.1
"""By relevance, no source is drawn with less than this share of the mean weight: it may become relevant."""


@dataclass(frozen=True, kw_only=True)
class Participation:
    """The share of the sources that take part in a round, and how they are drawn."""

    share: float = 1.0
    by: Rule = "uniform"
    fewest: int = 2

    def draw(
        self, sources: Sequence[str], rng: torch.Generator, relevance: Mapping[str, float] | None = None
    ) -> tuple[str, ...]:
        """The sources of a round in order of name; at least `fewest`, or all there are."""
        count = min(len(sources), max(round(self.share * len(sources)), self.fewest))
        weights = torch.ones(len(sources), dtype=torch.float64)
        if self.by == "relevance" and relevance and (mean := sum(relevance.values()) / len(relevance)) > 0:
            known = [max(relevance.get(source, mean), LEAST * mean) for source in sources]
            weights = torch.tensor(known, dtype=torch.float64)
        drawn = torch.multinomial(weights, count, replacement=False, generator=rng)
        return tuple(sorted(sources[index] for index in drawn.tolist()))


def known_relevance(history: History) -> dict[str, float]:
    """What was last known of each source's relevance."""
    known: dict[str, float] = {}
    for line in history:
        known |= line.get("relevance") or {}
    return known
