"""Moving class centroids and the distance between two domains' (MSTN, which DSBN trains with)."""

from __future__ import annotations

from galafed.lazy import torch


def moved(centroids: torch.Tensor, features: torch.Tensor, labels: torch.Tensor, *, rate: float) -> torch.Tensor:
    """c_k ← (1 - θ) c_k + θ mean of the batch's features of class k; a class the batch lacks stays: [C, d].

    For centroids [C, d], features [n, d] and labels [n]. Gradients flow into the features.
    """
    member = torch.nn.functional.one_hot(labels, len(centroids)).to(features.dtype)  # [n, C]
    count = member.sum(dim=0)[:, None]
    means = member.T @ features / count.clamp_min(1)
    return torch.where(count > 0, centroids.lerp(means, rate), centroids)


def semantic_distance(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    """mean (c_k - c'_k)² over classes and dimensions, for centroids [C, d] of two domains."""
    return (one - two).square().mean()
