"""The weight gradient of many clients' convolutions, and the step of SGD it is for.

Images x [N, B, H, W, I], gradients dy [N, B, H, W, O]; weights lie in memory as [N, K·K, I, O], a matrix for each tap.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from galafed.stacking.kernels import FEW, parts


@triton.jit
def _weight_gradient(
    x,
    dy,
    out,
    pixels,
    height,
    width,
    per_part,
    I: tl.constexpr,
    O: tl.constexpr,
    K: tl.constexpr,
    TAPS: tl.constexpr,
    BP: tl.constexpr,
):
    """out[part, tap, i, o] = Σ_p x[p + tap, i] dy[p, o] over one part of the pixels, for TAPS taps at a time."""
    client = tl.program_id(2).to(tl.int64)
    part = tl.program_id(1)
    m = tl.arange(0, TAPS * I)
    i = m % I
    tap = tl.program_id(0) * TAPS + m // I
    down = tap // K - K // 2
    right = tap % K - K // 2
    o = tl.arange(0, O)
    x += client * pixels * I
    dy += client * pixels * O
    total = tl.zeros((TAPS * I, O), dtype=tl.float32)
    for start in range(part * per_part, part * per_part + per_part, BP):
        p = start + tl.arange(0, BP)
        row = (p // width) % height
        column = p % width
        b = tl.load(dy + p[:, None] * O + o[None, :], mask=(p < pixels)[:, None], other=0.0)
        r = row[:, None] + down[None, :]
        c = column[:, None] + right[None, :]
        here = (r >= 0) & (r < height) & (c >= 0) & (c < width) & (p < pixels)[:, None] & (tap < K * K)[None, :]
        place = (p[:, None] + down[None, :] * width + right[None, :]) * I + i[None, :]
        a = tl.load(x + place, mask=here, other=0.0)
        total = tl.dot(tl.trans(a), b, total)
    place = ((client * tl.num_programs(1) + part) * K * K * I * O) + (tap * I + i)[:, None] * O + o[None, :]
    tl.store(out + place, total, mask=(tap < K * K)[:, None])


@triton.jit
def _weight_gradient_few(
    x,
    dy,
    out,
    pixels,
    height,
    width,
    per_part,
    I: tl.constexpr,
    O: tl.constexpr,
    K: tl.constexpr,
    BP: tl.constexpr,
    BK: tl.constexpr,
):
    """`_weight_gradient` for very few input channels."""
    client = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0)
    o = tl.arange(0, O)
    k = tl.arange(0, BK)
    tap = k // I
    down = tap // K - K // 2
    right = tap % K - K // 2
    x += client * pixels * I
    dy += client * pixels * O
    total = tl.zeros((BK, O), dtype=tl.float32)
    for start in range(part * per_part, part * per_part + per_part, BP):
        p = start + tl.arange(0, BP)
        row = (p // width) % height
        column = p % width
        b = tl.load(dy + p[:, None] * O + o[None, :], mask=(p < pixels)[:, None], other=0.0)
        r = row[:, None] + down[None, :]
        c = column[:, None] + right[None, :]
        here = (r >= 0) & (r < height) & (c >= 0) & (c < width) & (p < pixels)[:, None] & (k < K * K * I)[None, :]
        place = (p[:, None] + down[None, :] * width + right[None, :]) * I + (k % I)[None, :]
        a = tl.load(x + place, mask=here, other=0.0)
        total = tl.dot(tl.trans(a), b, total)
    place = (client * tl.num_programs(0) + part) * K * K * I * O + k[:, None] * O + o[None, :]
    tl.store(out + place, total, mask=(k < K * K * I)[:, None])


@triton.jit
def _descend(gradients, weight, momentum, low, rate, count, size, mu, decay, BLOCK: tl.constexpr):
    """g = Σ over parts, in their order, + decay w; m = mu m + g; w = w - rate m, and w again in low precision."""
    client = tl.program_id(1).to(tl.int64)
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = e < size
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(count):
        total += tl.load(gradients + (client * count + part) * size + e, mask=inside, other=0.0)
    place = client * size + e
    w = tl.load(weight + place, mask=inside, other=0.0)
    m = mu * tl.load(momentum + place, mask=inside, other=0.0) + total + decay * w
    w = w - tl.load(rate) * m
    tl.store(momentum + place, m, mask=inside)
    tl.store(weight + place, w, mask=inside)
    tl.store(low + place, w.to(low.dtype.element_ty), mask=inside)


MOST_PARTS = 256
COST = {True: 0.0005, False: 0.01}
"""Of a part, as a share of the whole sum; with few channels a part is small."""


def gradient_in_parts(x: Tensor, dy: Tensor, taps: int) -> Tensor:
    """Σ_p x[p + tap]ᵀ dy[p] for every tap over parts of the pixels: [N, parts, K·K, I, O] in float32."""
    n, b, height, width, i = x.shape
    o, k, pixels = dy.shape[-1], math.isqrt(taps), b * height * width
    few = i < FEW
    at_once = 1 if few else 256 // i  # taps
    pixels_at_once = 128 if few else 64
    groups = 1 if few else triton.cdiv(taps, at_once)
    most = min(MOST_PARTS, triton.cdiv(pixels, pixels_at_once))
    count = parts(groups * n, 2 if few else 1, x.device, most, COST[few])
    per_part = triton.cdiv(triton.cdiv(pixels, count), pixels_at_once) * pixels_at_once
    out = torch.empty(n, count, taps, i, o, device=x.device, dtype=torch.float32)
    shape = (x, dy, out, pixels, height, width, per_part, i, o, k)
    if few:
        depth = triton.next_power_of_2(taps * i)
        _weight_gradient_few[(count, n)](*shape, BP=pixels_at_once, BK=depth, num_warps=4, num_stages=2)
    else:
        _weight_gradient[(groups, count, n)](*shape, TAPS=at_once, BP=pixels_at_once, num_warps=8, num_stages=3)
    return out


def descend(
    gradients: Tensor, weight: Tensor, momentum: Tensor, low: Tensor, rate: Tensor, *, mu: float, decay: float
) -> None:
    """One step of SGD of weights with the gradient that comes in parts, in place; all lie as [N, K·K, I, O]."""
    n, count = gradients.shape[:2]
    size = gradients[0, 0].numel()
    _descend[(triton.cdiv(size, 256), n)](gradients, weight, momentum, low, rate, count, size, mu, decay, 256)
