"""The nuclear norm of all predictions (Cui et al., CVPR 2020): sure and varied in one number."""

from __future__ import annotations

from typing import ClassVar

from galafed.lazy import torch
from galafed.tuning.criteria.base import Evidence, criteria


@criteria.register("nuclear_norm")
class NuclearNorm:
    """‖P‖_* / √n for the matrix P [n, C] of predictions."""

    name: ClassVar[str]
    about: ClassVar[str] = "predictions are sure and use every class, by the singular values"

    def score(self, evidence: Evidence) -> float | None:
        p = evidence.probabilities.double()
        return float(torch.linalg.svdvals(p).sum() / len(p) ** 0.5)
