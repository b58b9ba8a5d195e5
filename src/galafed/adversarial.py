"""The domain game: a discriminator tells source from target features, an extractor makes it fail.

A discriminator's logits have shape [n] or [n, 1]; D = σ(logit) is its belief that an image comes from a source.
"""

from __future__ import annotations

import math

from galafed.lazy import torch

DISCERNING_RATE = 0.1
"""The discriminators' share of the learning rate: with the momentum of the others, they overshoot and never recover."""


def domain_loss(source: torch.Tensor, target: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
    """-E_s[w log D] - E_t[log(1 - D)] for logits of source and of target images; w [n] has mean 1, or is 1."""
    missed = torch.nn.functional.softplus(-source.flatten())
    if weights is not None:
        missed = weights * missed
    return missed.mean() + torch.nn.functional.softplus(target).mean()


def curriculum(scores: torch.Tensor) -> torch.Tensor:
    """w = n softmax(scores), which have mean 1 over the n images of all sources of a batch (CMSS)."""
    return len(scores) * scores.flatten().softmax(dim=0)


def reversed_gradient(loss: torch.Tensor) -> torch.Tensor:
    """The same value with the opposite gradient: what a discriminator loses, an extractor gains."""
    return 2 * loss.detach() - loss


def hardest_source(task: torch.Tensor, domain: torch.Tensor, *, mu: float) -> torch.Tensor:
    """max_i ℓ_i + μ min_i d_i: the hard bound of MDAN, for task losses ℓ [N] and domain losses d [N] of the sources."""
    return task.amax() + mu * domain.amin()


def smooth_sources(task: torch.Tensor, domain: torch.Tensor, *, mu: float, gamma: float) -> torch.Tensor:
    """(1/γ) log Σ_i exp(γ (ℓ_i + μ d_i)): the soft bound of MDAN, which leans towards the hardest source."""
    return (gamma * (task + mu * domain)).logsumexp(dim=0) / gamma


def ramp(progress: float, *, steepness: float = 10.0) -> float:
    """λ = 2 / (1 + exp(-steepness p)) - 1, from 0 at the start (p = 0) to nearly 1 at the end (p = 1)."""
    return 2 / (1 + math.exp(-steepness * min(max(progress, 0.0), 1.0))) - 1
