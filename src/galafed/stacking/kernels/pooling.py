"""BatchNorm, ReLU and a 3x3 max-pool of stride 2 as one layer: what lies between them never touches memory.

Images x [N, B, H, W, C] with channels last; forward two passes over them, backward two.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

NOWHERE = tl.constexpr(9)
"""Instead of a place in the window: the largest entry was not positive, so that no gradient comes back."""


@triton.jit
def _moments(x, sums, pixels, per_part, C: tl.constexpr, BP: tl.constexpr):
    """sums[part] = (Σ x, Σ x²) over one part of the pixels, for each channel."""
    client = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0)
    c = tl.arange(0, C)
    x += client * pixels * C
    first = tl.zeros((BP, C), dtype=tl.float32)
    second = tl.zeros((BP, C), dtype=tl.float32)
    for start in range(part * per_part, part * per_part + per_part, BP):
        p = start + tl.arange(0, BP)
        value = tl.load(x + p[:, None] * C + c[None, :], mask=(p < pixels)[:, None], other=0.0).to(tl.float32)
        first += value
        second += value * value
    place = (client * tl.num_programs(0) + part) * 2 * C
    tl.store(sums + place + c, tl.sum(first, axis=0))
    tl.store(sums + place + C + c, tl.sum(second, axis=0))


@triton.jit
def _statistics(sums, mean, deviation, running_mean, running_var, pixels, parts, momentum, eps, C: tl.constexpr):
    """Mean and 1 / √(variance + eps) of a client's channels from the partial sums; running statistics follow."""
    client = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, C)
    first = tl.zeros((C,), dtype=tl.float32)
    second = tl.zeros((C,), dtype=tl.float32)
    for part in range(parts):
        first += tl.load(sums + (client * parts + part) * 2 * C + c)
        second += tl.load(sums + (client * parts + part) * 2 * C + C + c)
    m = first / pixels
    variance = tl.maximum(second / pixels - m * m, 0.0)
    tl.store(mean + client * C + c, m)
    tl.store(deviation + client * C + c, 1.0 / tl.sqrt(variance + eps))
    old_mean = tl.load(running_mean + client * C + c)
    old_var = tl.load(running_var + client * C + c)
    tl.store(running_mean + client * C + c, old_mean + momentum * (m - old_mean))
    tl.store(running_var + client * C + c, old_var + momentum * (variance * (pixels / (pixels - 1.0)) - old_var))


@triton.jit
def _pool(
    x,
    mean,
    deviation,
    weight,
    bias,
    y,
    place,
    outputs,
    height,
    width,
    high,
    wide,
    C: tl.constexpr,
    BP: tl.constexpr,
):
    """y = max over the window of relu(weight (x - mean) deviation + bias); `place` tells which entry it was."""
    client = tl.program_id(1).to(tl.int64)
    o = tl.program_id(0) * BP + tl.arange(0, BP)
    c = tl.arange(0, C)
    scale = tl.load(deviation + client * C + c) * tl.load(weight + client * C + c)
    shift = tl.load(bias + client * C + c) - tl.load(mean + client * C + c) * scale
    row = (o // wide) % high
    column = o % wide
    image = o // (wide * high)
    x += client * (outputs // (high * wide)) * height * width * C
    best = tl.full((BP, C), -float("inf"), dtype=tl.float32)
    where = tl.full((BP, C), 0, dtype=tl.int32)
    for tap in tl.static_range(9):
        r = 2 * row + (tap // 3) - 1
        s = 2 * column + (tap % 3) - 1
        inside = (r >= 0) & (r < height) & (s >= 0) & (s < width) & (o < outputs)
        p = (image * height + r) * width + s
        value = tl.load(x + p[:, None] * C + c[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
        value = tl.where(inside[:, None], value * scale[None, :] + shift[None, :], -float("inf"))
        where = tl.where(value > best, tap, where)
        best = tl.maximum(best, value)
    where = tl.where(best > 0, where, NOWHERE)
    target = client * outputs * C + o[:, None].to(tl.int64) * C + c[None, :]
    tl.store(y + target, tl.maximum(best, 0.0).to(y.dtype.element_ty), mask=(o < outputs)[:, None])
    tl.store(place + target, where.to(tl.uint8), mask=(o < outputs)[:, None])


@triton.jit
def _pool_sums(
    x,
    dy,
    place,
    mean,
    deviation,
    sums,
    outputs,
    per_part,
    height,
    width,
    high,
    wide,
    C: tl.constexpr,
    BP: tl.constexpr,
):
    """sums[part] = (Σ g, Σ g x̂): g is the gradient at BatchNorm's output, not zero only where a maximum was."""
    client = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0)
    c = tl.arange(0, C)
    m = tl.load(mean + client * C + c)
    d = tl.load(deviation + client * C + c)
    x += client * (outputs // (high * wide)) * height * width * C
    dy += client * outputs * C
    place += client * outputs * C
    first = tl.zeros((BP, C), dtype=tl.float32)
    second = tl.zeros((BP, C), dtype=tl.float32)
    for start in range(part * per_part, part * per_part + per_part, BP):
        o = start + tl.arange(0, BP)
        inside = (o < outputs)[:, None]
        at = o[:, None] * C + c[None, :]
        where = tl.load(place + at, mask=inside, other=9).to(tl.int32)
        g = tl.load(dy + at, mask=inside & (where < NOWHERE), other=0.0).to(tl.float32)
        r = 2 * ((o // wide) % high)[:, None] + where // 3 - 1
        s = 2 * (o % wide)[:, None] + where % 3 - 1
        p = ((o // (wide * high))[:, None] * height + r) * width + s
        value = tl.load(x + p * C + c[None, :], mask=inside & (where < NOWHERE), other=0.0).to(tl.float32)
        first += g
        second += g * (value - m[None, :]) * d[None, :]
    target = (client * tl.num_programs(0) + part) * 2 * C
    tl.store(sums + target + c, tl.sum(first, axis=0))
    tl.store(sums + target + C + c, tl.sum(second, axis=0))


@triton.jit
def _totals(sums, out, parts, C: tl.constexpr):
    """out = Σ over parts, for two rows of channels."""
    client = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, 2 * C)
    total = tl.zeros((2 * C,), dtype=tl.float32)
    for part in range(parts):
        total += tl.load(sums + (client * parts + part) * 2 * C + c)
    tl.store(out + client * 2 * C + c, total)


@triton.jit
def _pool_gradient(
    x,
    dy,
    place,
    mean,
    deviation,
    weight,
    totals,
    dx,
    pixels,
    height,
    width,
    high,
    wide,
    C: tl.constexpr,
    BP: tl.constexpr,
):
    """dx = weight · deviation · (g - Σg / P - x̂ Σ(g x̂) / P), with g gathered from the up to four windows of a pixel."""
    client = tl.program_id(1).to(tl.int64)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    c = tl.arange(0, C)
    m = tl.load(mean + client * C + c)
    d = tl.load(deviation + client * C + c)
    scale = d * tl.load(weight + client * C + c)
    first = tl.load(totals + client * 2 * C + c) / pixels
    second = tl.load(totals + client * 2 * C + C + c) / pixels
    row = (p // width) % height
    column = p % width
    image = p // (width * height)
    outputs = (pixels // (height * width)) * high * wide
    dy += client * outputs * C
    place += client * outputs * C
    g = tl.zeros((BP, C), dtype=tl.float32)
    for window in tl.static_range(4):
        r = (row + window // 2) // 2  # the windows above and below, the same one where the row is even
        s = (column + window % 2) // 2
        own = (p < pixels) & (r < high) & (s < wide)
        if window // 2 == 1:
            own = own & (row % 2 == 1)
        if window % 2 == 1:
            own = own & (column % 2 == 1)
        tap = (row - 2 * r + 1) * 3 + column - 2 * s + 1
        at = ((image * high + r) * wide + s)[:, None] * C + c[None, :]
        where = tl.load(place + at, mask=own[:, None], other=9).to(tl.int32)
        chosen = own[:, None] & (where == tap[:, None])
        g += tl.load(dy + at, mask=chosen, other=0.0).to(tl.float32)
    at = client * pixels * C + p[:, None].to(tl.int64) * C + c[None, :]
    value = tl.load(x + at, mask=(p < pixels)[:, None], other=0.0).to(tl.float32)
    normal = (value - m[None, :]) * d[None, :]
    result = scale[None, :] * (g - first[None, :] - normal * second[None, :])
    tl.store(dx + at, result.to(dx.dtype.element_ty), mask=(p < pixels)[:, None])


PARTS = 64
TILE = 4096
"""Entries of a tile: so many pixels times channels are in a program's registers."""


class NormReluPool(torch.autograd.Function):
    """y [N, B, h, w, C] of images x [N, B, H, W, C] with batch statistics; running statistics move in place."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, momentum: float, eps: float
    ) -> Tensor:
        n, b, height, width, c = x.shape
        pixels = b * height * width
        tile = max(TILE // c, 16)
        sums = torch.empty(n, PARTS, 2, c, device=x.device)
        per_part = triton.cdiv(triton.cdiv(pixels, PARTS), tile) * tile
        _moments[(PARTS, n)](x, sums, pixels, per_part, c, tile)
        m, d = torch.empty(n, c, device=x.device), torch.empty(n, c, device=x.device)
        _statistics[(n,)](sums, m, d, mean, variance, pixels, PARTS, momentum, eps, c)
        y, place = pooled(x, m, d, weight, bias)
        ctx.save_for_backward(x, place, m, d, weight)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, place, m, d, weight = ctx.saved_tensors
        dy = dy.contiguous()
        n, b, height, width, c = x.shape
        high, wide = dy.shape[2:4]
        pixels, outputs = b * height * width, b * high * wide
        tile = max(TILE // c, 16)
        sums, totals = torch.empty(n, PARTS, 2, c, device=x.device), torch.empty(n, 2, c, device=x.device)
        per_part = triton.cdiv(triton.cdiv(outputs, PARTS), tile) * tile
        _pool_sums[(PARTS, n)](x, dy, place, m, d, sums, outputs, per_part, height, width, high, wide, c, tile)
        _totals[(n,)](sums, totals, PARTS, c)
        dx = None
        if ctx.needs_input_grad[0]:
            dx = torch.empty_like(x)
            grid = (triton.cdiv(pixels, tile), n)
            _pool_gradient[grid](x, dy, place, m, d, weight, totals, dx, pixels, height, width, high, wide, c, tile)
        return dx, totals[:, 1], totals[:, 0], None, None, None, None


def pooled(x: Tensor, mean: Tensor, deviation: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The layer's output for given statistics, and the place of each maximum."""
    n, b, height, width, c = x.shape
    high, wide = (height + 1) // 2, (width + 1) // 2
    outputs = b * high * wide
    y = torch.empty(n, b, high, wide, c, device=x.device, dtype=x.dtype)
    place = torch.empty(n, b, high, wide, c, device=x.device, dtype=torch.uint8)
    tile = max(TILE // c, 16)
    grid = (triton.cdiv(outputs, tile), n)
    _pool[grid](x, mean, deviation, weight, bias, y, place, outputs, height, width, high, wide, c, tile)
    return y, place
