"""What FADA pulls features apart with, and the statistic that weighs its sources."""

from __future__ import annotations

import math
from collections.abc import Mapping

from galafed.lazy import torch


def mutual_information(joint: torch.Tensor, marginal: torch.Tensor) -> torch.Tensor:
    """E_joint T - log E_marginal exp T, a lower bound of the mutual information (MINE), for scores T [n, 1] each."""
    return joint.mean() - (marginal.flatten().logsumexp(dim=0) - math.log(marginal.numel()))


def class_confusion(logits: torch.Tensor) -> torch.Tensor:
    """-mean log p over images and classes: the cross-entropy to "any class", least for features that tell none."""
    return -logits.log_softmax(dim=-1).mean()


def gap_statistic(features: torch.Tensor, clusters: int, *, iterations: int = 10) -> torch.Tensor:
    """Σ_r 1/(2 n_r) Σ_{i,j in C_r} ‖f_i - f_j‖² = Σ_i ‖f_i - c(i)‖², by k-means of features [n, d].

    The first centre is the image nearest to the mean and each next one the farthest from those before, so that
    nothing is random.
    """
    clusters = min(clusters, len(features))
    to_mean = (features - features.mean(dim=0)).square().sum(dim=-1)
    chosen = [to_mean.argmin()]
    for _ in range(clusters - 1):
        chosen.append(_distances(features, features[torch.stack(chosen)]).amin(dim=-1).argmax())
    centres = features[torch.stack(chosen)]
    for _ in range(iterations):
        member = torch.nn.functional.one_hot(_distances(features, centres).argmin(dim=-1), clusters).to(features.dtype)
        count = member.sum(dim=0)[:, None]
        centres = torch.where(count > 0, member.T @ features / count.clamp_min(1), centres)
    return _distances(features, centres).amin(dim=-1).sum()


def _distances(features: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    """‖f_i - c_r‖² [n, r]."""
    return torch.stack([(features - centre).square().sum(dim=-1) for centre in centres], dim=-1)


def attention(before: float, after: Mapping[str, float]) -> dict[str, float]:
    """α_n = softmax of the relative gains (I - I_n) / I: how much tighter source n's model clusters the target."""
    scale = before if before > 0 else 1.0
    gains = {source: (before - value) / scale for source, value in after.items()}
    largest = max(gains.values())
    total = sum(math.exp(gain - largest) for gain in gains.values())
    return {source: math.exp(gain - largest) / total for source, gain in sorted(gains.items())}
