"""Whether an image is like those a model was adapted to: how far it lies from the target's soft class centroids.

Two distances are taken, each to the nearest centroid, because each is blind to something: the angle to images whose
features are far too strong, the length of the way to those whose features are weak and mixed.
"""

from __future__ import annotations

from collections.abc import Sequence

from galafed.lazy import torch
from galafed.model import State
from galafed.relevance import RARE, centroids_from, soft_sums

LEVELS = 1001
"""Distances are kept as so many quantiles, from the least to the largest."""

SAMPLE = 1000
"""So many of the target's images are looked at."""

USUAL = 0.995
"""An image that lies further away, by either distance, than this share of the target's own is unlike anything seen."""

LEAST = 1e-6
"""A feature that does not vary at all would otherwise be infinitely far from its mean when it does."""


def joined(features: Sequence[torch.Tensor]) -> torch.Tensor:
    """Features [n, d_k] of every extractor that decides, side by side: [n, Σ d_k]."""
    return torch.cat(list(features), dim=-1)


def distances(features: torch.Tensor, means: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
    """1 - max_c cos(G(x), r^c) and min_c ‖(G(x) - r^c) / σ‖ / √d, [2, n]: features [n, d], means [C, d], spread [d].

    A class without a centroid, whose means are all 0, is near to nothing; unless no class has one.
    """
    known = means.abs().sum(dim=-1) > 0
    known = known | ~known.any()
    cosine = torch.nn.functional.normalize(features, dim=-1) @ torch.nn.functional.normalize(means, dim=-1).T
    x, r = features / spread, means / spread
    square = (x * x).mean(dim=-1, keepdim=True) + (r * r).mean(dim=-1) - 2 * x @ r.T / x.shape[-1]
    length = torch.where(known, square.clamp_min(0).sqrt(), torch.inf)
    return torch.stack([1 - torch.where(known, cosine, -1.0).amax(dim=-1), length.amin(dim=-1)])


def profile_from(features: torch.Tensor, probabilities: torch.Tensor, dtype: torch.dtype) -> State:
    """Soft centroids `means` [C, d], the `spread` σ of each feature [d], and `levels` [2, LEVELS] of both distances.

    Distances are measured crosswise, every second image from the centroids of the others: an image lies nearer to a
    centroid that it is itself a part of.
    """
    means, spread = _shape(features, probabilities, dtype)
    halves = [slice(0, None, 2), slice(1, None, 2)] if len(features) > 3 else [slice(None)] * 2
    found = [
        distances(features[seen], *_shape(features[used], probabilities[used], dtype))
        for used, seen in (halves, halves[::-1])
    ]
    ranks = torch.linspace(0, 1, LEVELS, dtype=torch.float64, device=features.device)
    levels = torch.cat(found, dim=1).double().quantile(ranks, dim=1).T
    return {"means": means, "spread": spread, "levels": levels.to(dtype).contiguous()}


def _shape(
    features: torch.Tensor, probabilities: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Soft centroids, 0 for a class that is all but absent, and the standard deviation of each feature."""
    centroids = centroids_from(soft_sums(features, probabilities.clamp_min(1e-30).log()), dtype)
    spread = features.std(dim=0, correction=0)
    spread = spread + 1e-3 * spread.mean() + LEAST
    return centroids["means"] * (centroids["share"] >= RARE)[:, None], spread.to(dtype)


def usual(profile: State) -> torch.Tensor:
    """Up to where both distances are usual: [2]."""
    return profile["levels"].quantile(USUAL, dim=1).clamp_min(1e-6)


def unfamiliarity(
    features: torch.Tensor, means: torch.Tensor, spread: torch.Tensor, limits: torch.Tensor
) -> torch.Tensor:
    """The larger of both distances in units of what is still usual: [n], above 1 for an image unlike anything seen."""
    return (distances(features, means, spread) / limits[:, None]).amax(dim=0)
