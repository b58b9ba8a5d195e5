"""A batch of many clients in one pass: images picked by number, normalised and rounded; labels beside them."""

from __future__ import annotations

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from galafed.networks.base import Network, channels

LARGEST = 4096
"""Numbers a program moves; Triton unrolls them, and takes minutes to compile a whole photograph."""


@triton.jit
def _gather(
    images, labels, order, cursor, factors, offsets, out, out_labels, batch,
    LABELS: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Image number order[cursor, p] to place p: x · factor + offset of its channel."""
    place = tl.program_id(0).to(tl.int64)
    number = tl.load(order + tl.load(cursor) * batch + place)
    e = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = e < SIZE
    factor = tl.load(factors + e % 3)
    offset = tl.load(offsets + e % 3)
    value = tl.load(images + number * SIZE + e, mask=inside, other=0).to(tl.float32)
    tl.store(out + place * SIZE + e, (value * factor + offset).to(out.dtype.element_ty), mask=inside)
    if LABELS and tl.program_id(1) == 0:
        tl.store(out_labels + place, tl.load(labels + number))


def gather(
    images: Tensor,
    labels: Tensor | None,
    order: Tensor,
    cursor: Tensor,
    factors: Tensor,
    offsets: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor | None]:
    """Images uint8 [total, h, w, 3] by order [steps, n, B] at step `cursor` -> [n, B, 3, h, w] and labels [n, B]."""
    _, n, b = order.shape
    size = images.shape[1:].numel()
    out = torch.empty(n, b, *images.shape[1:], dtype=dtype, device=images.device)
    chosen = None if labels is None else torch.empty(n, b, dtype=labels.dtype, device=labels.device)
    block = min(LARGEST, triton.next_power_of_2(size))
    _gather[(n * b, triton.cdiv(size, block))](
        images, order if labels is None else labels, order, cursor, factors, offsets, out,
        order if chosen is None else chosen, n * b, labels is not None, size, block,
    )  # fmt: skip
    return out.permute(0, 1, 4, 2, 3), chosen


def gathers(network: Network) -> bool:
    """Whether the kernel prepares images as a network wants them."""
    return type(network).prepare is Network.prepare


@lru_cache(maxsize=16)
def scale_of(network: Network, device: torch.device) -> tuple[Tensor, Tensor]:
    """Of red, green and blue: what a pixel's value is multiplied with, and what is added."""
    mean, deviation = channels(network.mean), channels(network.deviation)
    factors = [1 / (255 * d) for d in deviation]
    offsets = [-m / d for m, d in zip(mean, deviation, strict=True)]
    return torch.tensor(factors, device=device), torch.tensor(offsets, device=device)
