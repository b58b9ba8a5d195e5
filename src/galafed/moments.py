"""How far the moments of domains lie apart (M³SDA)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from galafed.lazy import torch


def central_moments(features: torch.Tensor, orders: int) -> list[torch.Tensor]:
    """E x and, for k = 2 … orders, E (x - E x)^k, each [d], of features [n, d]."""
    mean = features.mean(dim=0)
    centred = features - mean
    return [mean] + [centred.pow(order).mean(dim=0) for order in range(2, orders + 1)]


def moment_distance(domains: Sequence[torch.Tensor], *, orders: int = 2) -> torch.Tensor:
    """MD = mean over k and over pairs of domains i < j of ‖m_k(i) - m_k(j)‖₂, for features [n_i, d] of each domain."""
    moments = [central_moments(features, orders) for features in domains]
    distances = [
        torch.linalg.vector_norm(a - b)  # its gradient at 0 is 0, where that of a bare square root is not a number
        for one, two in combinations(moments, 2)
        for a, b in zip(one, two, strict=True)
    ]
    return torch.stack(distances).mean()
