"""How well the sources' predictors fit their own labels on the common extractor."""

from __future__ import annotations

from typing import ClassVar

from galafed.tuning.criteria.base import Evidence, criteria, late_mean


@criteria.register("source_loss")
class SourceLoss:
    """Minus the loss of the sources after fine-tuning, in the last rounds."""

    name: ClassVar[str]
    about: ClassVar[str] = "the sources fit their own labels"

    def score(self, evidence: Evidence) -> float | None:
        value = late_mean(evidence.history, "tuned_loss")
        value = late_mean(evidence.history, "loss") if value is None else value
        return None if value is None else -value
