"""Convolutions of many clients at once, stride 1 and "same" padding, as implicit matrix products in channels-last.

Images x [N, B, H, W, I], weights w [N, K·K, I, O] (a matrix for each tap), results y [N, B, H, W, O]; sums in float32.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from galafed.stacking.kernels import zeros


@triton.jit
def _finish(total, bias, y, sums, client, p, inside, pixels, O: tl.constexpr, BIAS: tl.constexpr, SUMS: tl.constexpr):
    """Add the bias, leave (Σ y, Σ y²) of the tile for BatchNorm, and write y."""
    o = tl.arange(0, O)
    if BIAS:
        total += tl.load(bias + client * O + o)[None, :]
    if SUMS:
        seen = tl.where(inside[:, None], total, 0.0)
        place = (client * tl.num_programs(0) + tl.program_id(0)) * 2 * O + o
        tl.store(sums + place, tl.sum(seen, axis=0))
        tl.store(sums + place + O, tl.sum(seen * seen, axis=0))
    place = client * pixels * O + p[:, None].to(tl.int64) * O + o[None, :]
    tl.store(y + place, total.to(y.dtype.element_ty), mask=inside[:, None])


@triton.jit
def _correlate(
    x, w, bias, y, sums, pixels, height, width, I: tl.constexpr, O: tl.constexpr, K: tl.constexpr,
    BIAS: tl.constexpr, SUMS: tl.constexpr, TURNED: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """y[p, o] = Σ_taps Σ_i x[p + tap, i] w[tap, i, o] (+ bias[o]) for a tile of BM pixels and all channels.

    TURNED: with w[-tap, o, i] instead, which makes of a gradient at y the one at x.
    """
    client = tl.program_id(1).to(tl.int64)
    p = tl.program_id(0) * BM + tl.arange(0, BM)
    o = tl.arange(0, O)
    i = tl.arange(0, BK)
    inside = p < pixels
    row = (p // width) % height
    column = p % width
    x += client * pixels * I
    w += client * K * K * I * O
    total = tl.zeros((BM, O), dtype=tl.float32)
    for step in range(K * K * (I // BK)):
        tap = step // (I // BK)
        block = (step % (I // BK)) * BK
        down = tap // K - K // 2
        right = tap % K - K // 2
        here = inside & (row + down >= 0) & (row + down < height) & (column + right >= 0) & (column + right < width)
        place = (p + down * width + right) * I
        a = tl.load(x + place[:, None] + block + i[None, :], mask=here[:, None], other=0.0)
        if TURNED:
            b = tl.load(w + (K * K - 1 - tap) * I * O + (block + i)[:, None] + o[None, :] * I)
        else:
            b = tl.load(w + (tap * I + block + i)[:, None] * O + o[None, :])
        total = tl.dot(a, b, total)
    _finish(total, bias, y, sums, client, p, inside, pixels, O, BIAS, SUMS)


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
def _correlate_few(
    x, w, bias, y, sums, pixels, height, width, I: tl.constexpr, O: tl.constexpr, K: tl.constexpr,
    BIAS: tl.constexpr, SUMS: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """`_correlate` for very few input channels: all taps and channels side by side in one product of depth BK."""
    client = tl.program_id(1).to(tl.int64)
    p = tl.program_id(0) * BM + tl.arange(0, BM)
    o = tl.arange(0, O)
    k = tl.arange(0, BK)
    tap = k // I
    down = tap // K - K // 2
    right = tap % K - K // 2
    row = (p // width) % height
    column = p % width
    r = row[:, None] + down[None, :]
    c = column[:, None] + right[None, :]
    here = (r >= 0) & (r < height) & (c >= 0) & (c < width) & (p < pixels)[:, None] & (k < K * K * I)[None, :]
    place = (p[:, None] + down[None, :] * width + right[None, :]) * I + (k % I)[None, :]
    a = tl.load(x + client * pixels * I + place, mask=here, other=0.0)
    b = tl.load(w + client * K * K * I * O + k[:, None] * O + o[None, :], mask=(k < K * K * I)[:, None], other=0.0)
    _finish(tl.dot(a, b), bias, y, sums, client, p, p < pixels, pixels, O, BIAS, SUMS)


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
def _collect(parts, out, count, size, I: tl.constexpr, O: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr):
    """out[o, i, tap] = Σ over parts of [tap, i, o], in their order."""
    client = tl.program_id(1).to(tl.int64)
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = e < size
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(count):
        total += tl.load(parts + (client * count + part) * size + e, mask=inside, other=0.0)
    tap, i, o = e // (I * O), (e // O) % I, e % O
    tl.store(out + client * size + (o * I + i) * T + tap, total, mask=inside)


class Convolution(torch.autograd.Function):
    """y [N, B, H, W, O] of images x [N, B, H, W, I] and weights [N, O, I, K, K]; beside it (Σ y, Σ y²) of parts of y.

    `norm_follows`: with batch statistics. The sums are for it, and the bias has no gradient: the mean takes it away.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, norm_follows: bool) -> tuple[Tensor, Tensor]:
        n, o, i, k, _ = weight.shape
        w = torch.empty(n, k, k, i, o, dtype=x.dtype, device=x.device)
        w = w.copy_(weight.permute(0, 3, 4, 2, 1)).view(n, k * k, i, o)
        ctx.save_for_backward(x, w)
        ctx.norm_follows = norm_follows
        y, sums = correlate(x, w, bias, sums=norm_follows)
        ctx.mark_non_differentiable(sums)
        ctx.set_materialize_grads(False)
        return y, sums

    @staticmethod
    def backward(ctx: Any, dy: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        dy = dy.contiguous()
        n, _, _, o = w.shape
        dx = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            if x.shape[-1] < FEW:
                raise NotImplementedError("few channels are those of images, which have no gradient")
            dx, _ = correlate(dy, w, None, turned=True)
        if ctx.needs_input_grad[1]:
            d_weight = weight_gradient(x, dy, w.shape[1])
        if ctx.needs_input_grad[2]:
            d_bias = zeros(n, o, x.device) if ctx.norm_follows else dy.float().sum(dim=(1, 2, 3))
        return dx, d_weight, d_bias, None


def fits(layer: Any) -> bool:
    """Whether the kernels can do the work of a convolution."""
    k, i, o = layer.kernel_size[0], layer.in_channels, layer.out_channels
    same = layer.kernel_size == (k, k) and k % 2 == 1 and layer.padding == (k // 2, k // 2)
    plain = layer.stride == layer.dilation == (1, 1) and layer.groups == 1 and layer.padding_mode == "zeros"
    channels = o in (16, 32, 64, 128) and (i in (16, 32, 64, 128) or (i < FEW and k * k * i <= 256))
    return bool(same and plain and channels)


TILE = 128
"""Pixels a program takes."""
PROGRAMS = 264
"""So many programs keep a GPU busy; with few clients, a sum over pixels is cut into more parts to have them."""
MOST_PARTS = 64
FEW = 16
"""Fewer input channels than this are too few for a product of their own at every tap."""


def correlate(
    x: Tensor, w: Tensor, bias: Tensor | None, *, sums: bool = False, turned: bool = False
) -> tuple[Tensor, Tensor]:
    """y[p] = Σ_taps x[p + tap] w[tap] + bias: images [N, B, H, W, I], weights [N, K·K, I, O] -> [N, B, H, W, O].

    Also (Σ y, Σ y²) of tiles of pixels [N, tiles, 2, O], empty unless asked for. `turned`: from O channels back to I.
    """
    n, b, height, width, i = x.shape
    taps, o = w.shape[1], w.shape[2 if turned else 3]
    k, pixels = math.isqrt(taps), b * height * width
    tiles = triton.cdiv(pixels, TILE)
    y = torch.empty(n, b, height, width, o, device=x.device, dtype=x.dtype)
    parts = torch.empty(n, tiles if sums else 0, 2, o, device=x.device, dtype=torch.float32)
    shape = (x, w, x if bias is None else bias, y, parts, pixels, height, width, i, o, k, bias is not None, sums)
    if i < FEW:
        _correlate_few[(tiles, n)](*shape, TILE, triton.next_power_of_2(taps * i), num_warps=4)
    else:
        _correlate[(tiles, n)](*shape, turned, TILE, min(i, 64), num_warps=4, num_stages=3)
    return y, parts


def weight_gradient(x: Tensor, dy: Tensor, taps: int) -> Tensor:
    """Σ_p x[p + tap]ᵀ dy[p] for every tap, as weights lie: [N, O, I, K, K] in float32, summed in a fixed order."""
    n, b, height, width, i = x.shape
    o, k, pixels = dy.shape[-1], math.isqrt(taps), b * height * width
    few = i < FEW
    at_once = 1 if few else 256 // i  # taps
    pixels_at_once = 128 if few else 64
    groups = 1 if few else triton.cdiv(taps, at_once)
    parts = min(max(triton.cdiv(PROGRAMS, groups * n), 4), MOST_PARTS)
    per_part = triton.cdiv(triton.cdiv(pixels, parts), pixels_at_once) * pixels_at_once
    out = torch.empty(n, parts, k, k, i, o, device=x.device, dtype=torch.float32)
    shape = (x, dy, out, pixels, height, width, per_part, i, o, k)
    if few:
        depth = triton.next_power_of_2(taps * i)
        _weight_gradient_few[(parts, n)](*shape, BP=pixels_at_once, BK=depth, num_warps=4, num_stages=2)
    else:
        _weight_gradient[(groups, parts, n)](*shape, TAPS=at_once, BP=pixels_at_once, num_warps=8, num_stages=3)
    result = torch.empty(n, o, i, k, k, device=x.device, dtype=torch.float32)
    size = taps * i * o
    _collect[(triton.cdiv(size, 256), n)](out, result, parts, size, i, o, taps, 256)
    return result
