"""How sure and how varied the predictions are."""

from __future__ import annotations

from typing import ClassVar

from galafed.tuning.criteria.base import Evidence, criteria, entropies


@criteria.register("information")
class Information:
    """H(E_x p(x)) - E_x H(p(x)): the mutual information of image and predicted class."""

    name: ClassVar[str]
    about: ClassVar[str] = "predictions are sure and use every class"

    def score(self, evidence: Evidence) -> float | None:
        p = evidence.probabilities.double()
        return float(entropies(p.mean(dim=0)) - entropies(p).mean())
