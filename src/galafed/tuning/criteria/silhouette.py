"""How well the predicted classes are separated in the space of features."""

from __future__ import annotations

from typing import ClassVar

from galafed.runs.seeding import array_generator
from galafed.tuning.criteria.base import Evidence, criteria

LOOKED_AT = 1000


@criteria.register("silhouette")
class Silhouette:
    """Mean silhouette (cosine) of the predicted classes, over at most `LOOKED_AT` images."""

    name: ClassVar[str]
    about: ClassVar[str] = "predicted classes lie apart among the features"

    def score(self, evidence: Evidence) -> float | None:
        from sklearn.metrics import silhouette_score

        labels = evidence.probabilities.argmax(dim=-1).numpy()
        chosen = array_generator("silhouette").permutation(len(labels))[:LOOKED_AT]
        if not 1 < len(set(labels[chosen])) < len(chosen):
            return None
        return float(silhouette_score(evidence.features.numpy()[chosen], labels[chosen], metric="cosine"))
