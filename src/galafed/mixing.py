"""Mixup: images, and what is known of them, mixed with others of the same batch."""

from __future__ import annotations

from dataclasses import replace

import torch

from galafed.runs.seeding import array_generator, generator
from galafed.work import Batch, Mixed


def mixed(batch: Batch, alpha: float, stream: tuple[object, ...]) -> Batch:
    """Mixup: λ x + (1 - λ) x' with λ ~ Beta(alpha, alpha), one λ a batch, x' the same batch in another order."""
    share = float(array_generator(*stream).beta(alpha, alpha))
    order = torch.randperm(len(batch.images), generator=generator(*stream)).to(batch.images.device)
    images = batch.images.mul(share).add_(batch.images[order], alpha=1 - share)
    labels = None if batch.labels is None else batch.labels[order]
    others = Mixed(share, labels, {name: values[order] for name, values in batch.rows.items()})
    return replace(batch, images=images, mixed=others)
