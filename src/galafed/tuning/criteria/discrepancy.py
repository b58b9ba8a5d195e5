"""How much the group predictors agree on the target in the last rounds: what GALA itself minimises."""

from __future__ import annotations

from typing import ClassVar

from galafed.tuning.criteria.base import Evidence, criteria, late_mean


@criteria.register("discrepancy")
class Discrepancy:
    """-L_IGD, without its scale."""

    name: ClassVar[str]
    about: ClassVar[str] = "the predictors agree on the target"

    def score(self, evidence: Evidence) -> float | None:
        value = late_mean(evidence.history, "discrepancy")
        return None if value is None else -value
