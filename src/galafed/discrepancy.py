"""How much predictors disagree on unlabelled images: the full pairwise discrepancy, IDD and IGD (Eq. 2 to 5).

Probabilities have shape [..., n, C]: n images, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from galafed.lazy import torch


def inter_domain(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """L_IDD = E_x ‖F_i(G(x)) - F_j(G(x))‖₁ (Eq. 3), the mean over images of the sum over classes."""
    return (p - q).abs().sum(dim=-1).mean()


def full(probabilities: Sequence[torch.Tensor]) -> torch.Tensor:
    """L_full = Σ_{i<j} L_IDD^(i,j) (Eq. 2)."""
    return torch.stack([inter_domain(p, q) for p, q in combinations(probabilities, 2)]).sum()


def normalised_full(probabilities: Sequence[torch.Tensor]) -> torch.Tensor:
    """L_full divided by the number of pairs: what IDD estimates without bias and IGD, on average, from below."""
    n = len(probabilities)
    return full(probabilities) / (n * (n - 1) / 2)


def group_mean(probabilities: Mapping[str, torch.Tensor], weights: Mapping[str, float]) -> torch.Tensor:
    """F_Gk(x) = Σ_{n in Gk} w̃_n F_n(x) (Eq. 5), an average of outputs."""
    terms = [probabilities[head] * weight for head, weight in weights.items()]
    return torch.stack(terms).sum(dim=0) if len(terms) > 1 else terms[0]


def inter_group(probabilities: Mapping[str, torch.Tensor], groups: Sequence[Mapping[str, float]]) -> torch.Tensor:
    """L_IGD = E_x ‖F_G1(G(x)) - F_G2(G(x))‖₁ (Eq. 4); each group is given by its weights w̃, which sum to 1."""
    first, second = (group_mean(probabilities, weights) for weights in groups)
    return inter_domain(first, second)
