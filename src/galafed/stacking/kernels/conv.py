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

from galafed.stacking.kernels import FEW, zeros
from galafed.stacking.kernels.conv_gradient import gradient_in_parts


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


class Convolution(torch.autograd.Function):
    """y [N, B, H, W, O] of images x [N, B, H, W, I] and a layer's weights `low`; beside it (Σ y, Σ y²) of parts of y.

    The weights' gradient is left to the layer's `pending`, in parts. `norm_follows`: with batch statistics. The sums
    are for it, and the bias has no gradient: the mean takes it away.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, layer: Any, norm_follows: bool
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x)
        ctx.layer, ctx.norm_follows = layer, norm_follows
        y, sums = correlate(x, layer.low, bias, sums=norm_follows)
        ctx.mark_non_differentiable(sums)
        ctx.set_materialize_grads(False)
        return y, sums

    @staticmethod
    def backward(ctx: Any, dy: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        (x,), w = ctx.saved_tensors, ctx.layer.low
        dy = dy.contiguous()
        n, taps, _, o = w.shape
        dx = d_bias = None
        if ctx.needs_input_grad[0]:
            if x.shape[-1] < FEW:
                raise NotImplementedError("few channels are those of images, which have no gradient")
            dx, _ = correlate(dy, w, None, turned=True)
        if ctx.needs_input_grad[1]:
            ctx.layer.pending.append(gradient_in_parts(x, dy, taps))
        if ctx.needs_input_grad[2]:
            d_bias = zeros(n, o, x.device) if ctx.norm_follows else dy.float().sum(dim=(1, 2, 3))
        return dx, None, d_bias, None, None


def fits(layer: Any) -> bool:
    """Whether the kernels can do the work of a convolution."""
    k, i, o = layer.kernel_size[0], layer.in_channels, layer.out_channels
    same = layer.kernel_size == (k, k) and k % 2 == 1 and layer.padding == (k // 2, k // 2)
    plain = layer.stride == layer.dilation == (1, 1) and layer.groups == 1 and layer.padding_mode == "zeros"
    channels = o in (16, 32, 64, 128) and (i in (16, 32, 64, 128) or (i < FEW and k * k * i <= 256))
    return bool(same and plain and channels)


TILE = 128
"""Pixels a program takes."""


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
