"""Soft neighbourhood density (Saito et al., ICCV 2021): images whose predictions are alike form dense clusters."""

from __future__ import annotations

from typing import ClassVar

from galafed.lazy import torch
from galafed.tuning.criteria.base import Evidence, criteria, entropies

TEMPERATURE = 0.05
"""That of the paper."""


@criteria.register("neighbourhood")
class Neighbourhood:
    """E_i H(softmax_{j≠i} cos(p_i, p_j) / T): high where every image has many equally near neighbours."""

    name: ClassVar[str]
    about: ClassVar[str] = "every image has many neighbours with the same prediction"

    def score(self, evidence: Evidence) -> float | None:
        p = torch.nn.functional.normalize(evidence.probabilities.double(), dim=-1)
        near = (p @ p.T) / TEMPERATURE
        near.fill_diagonal_(-torch.inf)
        return float(entropies(near.softmax(dim=-1)).mean())
