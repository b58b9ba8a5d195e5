"""How sure the predictions are."""

from __future__ import annotations

from typing import ClassVar

from galafed.tuning.criteria.base import Evidence, criteria, entropies


@criteria.register("entropy")
class Entropy:
    """-E_x H(p(x)): a model that puts everything into one class has the best."""

    name: ClassVar[str]
    about: ClassVar[str] = "predictions are sure"

    def score(self, evidence: Evidence) -> float | None:
        return -float(entropies(evidence.probabilities.double()).mean())
