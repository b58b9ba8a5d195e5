"""In which order images are looked at: index batches, each a pure function of counts and of a random stream's name."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from galafed.runs.seeding import generator
from galafed.work import Sweep


class WorkError(RuntimeError):
    """Client work that cannot be done; the message says why."""


def shuffled_batches(images: int, batch_size: int, epochs: int, stream: tuple[object, ...]) -> Iterator[Tensor]:
    """Index batches of every epoch; a last batch of one image is left out, for it has no batch statistics."""
    for epoch in range(epochs):
        order = torch.randperm(images, generator=generator(*stream, "shuffle", epoch))
        for batch in torch.split(order, batch_size):
            if len(batch) > 1:
                yield batch


def parallel_batches(
    sizes: Mapping[str, int], batch_size: int, epochs: int, stream: tuple[object, ...]
) -> Iterator[dict[str, Tensor]]:
    """Index batches of every stream at once, for as long as the longest lasts; the shorter ones start over."""
    steps = epochs * max(count_batches(size, batch_size) for size in sizes.values())
    endless = [shuffled_batches(size, batch_size, sys.maxsize, (*stream, f"@{name}")) for name, size in sizes.items()]
    for _, *indices in zip(range(steps), *endless, strict=False):
        yield dict(zip(sizes, indices, strict=True))


def count_batches(images: int, batch_size: int) -> int:
    """How many batches `shuffled_batches` makes of so many images in an epoch."""
    return images // batch_size + (images % batch_size > 1)


def sweep_batches(images: int, work: Sweep, stream: tuple[object, ...]) -> tuple[Tensor, ...]:
    """Index batches of a sweep: as the images lie, or at random in even batches where batch statistics are used."""
    if work.sample:
        order = torch.randperm(images, generator=generator(*stream, "sample"))[: work.sample]
        return torch.split(order, work.batch_size)
    if work.mode == "eval":
        return torch.split(torch.arange(images), work.batch_size)
    if images < 2:
        raise WorkError(f"it has {images} image(s); batch statistics need at least 2")
    order = torch.randperm(images, generator=generator(*stream, "order"))
    return order.tensor_split(count_batches(images, work.batch_size))
