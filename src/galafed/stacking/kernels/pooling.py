"""BatchNorm, ReLU and a 3x3 max-pool of stride 2 as one layer: what lies between them never touches memory.

Images x [N, B, H, W, C] with channels last, and the sums of x and x² that the convolution left with them: forward one
pass over the images, backward two. The result has its channels last too or, where flat features follow, first.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from galafed.stacking.kernels import parts

NOWHERE = tl.constexpr(9)
"""Instead of a place in the window: the largest entry was not positive, so that no gradient comes back."""


@triton.jit
def _two_sums(sums, client, parts, c, C: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr):
    """Both sums over all parts of [parts, 2, C] of a client, for BC channels c."""
    first = tl.zeros((BP, BC), dtype=tl.float32)
    second = tl.zeros((BP, BC), dtype=tl.float32)
    for start in range(0, parts, BP):
        part = start + tl.arange(0, BP)
        place = (client * parts + part)[:, None] * 2 * C + c[None, :]
        first += tl.load(sums + place, mask=(part < parts)[:, None], other=0.0)
        second += tl.load(sums + place + C, mask=(part < parts)[:, None], other=0.0)
    return tl.sum(first, axis=0), tl.sum(second, axis=0)


@triton.jit
def _statistics(
    sums, mean, deviation, running_mean, running_var, counter, pixels, parts, momentum, eps,
    C: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    """Mean and 1 / √(variance + eps) of a client's channels from sums over parts; running statistics follow."""
    client = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    first, second = _two_sums(sums, client, parts, c, C, BC, BP)
    m = first / pixels
    variance = tl.maximum(second / pixels - m * m, 0.0)
    tl.store(mean + client * C + c, m)
    tl.store(deviation + client * C + c, 1.0 / tl.sqrt(variance + eps))
    old_mean = tl.load(running_mean + client * C + c)
    old_var = tl.load(running_var + client * C + c)
    tl.store(running_mean + client * C + c, old_mean + momentum * (m - old_mean))
    tl.store(running_var + client * C + c, old_var + momentum * (variance * (pixels / (pixels - 1.0)) - old_var))
    if tl.program_id(0) == 0:
        tl.store(counter + client, tl.load(counter + client) + 1)


@triton.jit
def _at(o, c, high, wide, C: tl.constexpr, FLAT: tl.constexpr):
    """Where output pixels o and channels c lie in a client's results: channels last, or first if FLAT."""
    area = high * wide
    if FLAT:
        return (o // area)[:, None] * area * C + c[None, :] * area + (o % area)[:, None]
    return o[:, None] * C + c[None, :]


@triton.jit
def _pool(
    x, mean, deviation, weight, bias, y, place, outputs, height, width, high, wide,
    C: tl.constexpr, FLAT: tl.constexpr, PLACES: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
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
    y += client * outputs * C
    place += client * outputs * C
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
    real = (o < outputs)[:, None]
    tl.store(y + _at(o, c, high, wide, C, FLAT), tl.maximum(best, 0.0).to(y.dtype.element_ty), mask=real)
    if PLACES:
        tl.store(place + _at(o, c, high, wide, C, False), where.to(tl.uint8), mask=real)


@triton.jit
def _pool_sums(
    x, dy, place, mean, deviation, sums, outputs, per_part, height, width, high, wide,
    C: tl.constexpr, FLAT: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
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
        real = (o < outputs)[:, None]
        where = tl.load(place + _at(o, c, high, wide, C, False), mask=real, other=9).to(tl.int32)
        chosen = real & (where < NOWHERE)
        g = tl.load(dy + _at(o, c, high, wide, C, FLAT), mask=chosen, other=0.0).to(tl.float32)
        r = 2 * ((o // wide) % high)[:, None] + where // 3 - 1
        s = 2 * (o % wide)[:, None] + where % 3 - 1
        p = ((o // (wide * high))[:, None] * height + r) * width + s
        value = tl.load(x + p * C + c[None, :], mask=chosen, other=0.0).to(tl.float32)
        first += g
        second += g * (value - m[None, :]) * d[None, :]
    target = (client * tl.num_programs(0) + part) * 2 * C
    tl.store(sums + target + c, tl.sum(first, axis=0))
    tl.store(sums + target + C + c, tl.sum(second, axis=0))


@triton.jit
def _totals(sums, first, second, parts, C: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr):
    """The two sums over all parts."""
    client = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    one, two = _two_sums(sums, client, parts, c, C, BC, BP)
    tl.store(first + client * C + c, one)
    tl.store(second + client * C + c, two)


@triton.jit
def _pool_gradient(
    x, dy, place, mean, deviation, weight, first, second, dx, pixels, height, width, high, wide,
    C: tl.constexpr, FLAT: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    """dx = weight · deviation · (g - Σg / P - x̂ Σ(g x̂) / P), with g gathered from the up to four windows of a pixel."""
    client = tl.program_id(1).to(tl.int64)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    c = tl.arange(0, C)
    m = tl.load(mean + client * C + c)
    d = tl.load(deviation + client * C + c)
    scale = d * tl.load(weight + client * C + c)
    one = tl.load(first + client * C + c) / pixels
    two = tl.load(second + client * C + c) / pixels
    row = (p // width) % height
    column = p % width
    image = p // (width * height)
    outputs = (pixels // (height * width)) * high * wide
    dy += client * outputs * C
    place += client * outputs * C
    g = tl.zeros((BP, C), dtype=tl.float32)
    for window in tl.static_range(4):
        r = (row + window // 2) // 2  # the windows above and below; an even row has one window only
        s = (column + window % 2) // 2
        own = (p < pixels) & (r < high) & (s < wide)
        if window // 2 == 1:
            own = own & (row % 2 == 1)
        if window % 2 == 1:
            own = own & (column % 2 == 1)
        tap = (row - 2 * r + 1) * 3 + column - 2 * s + 1
        o = (image * high + r) * wide + s
        where = tl.load(place + _at(o, c, high, wide, C, False), mask=own[:, None], other=9).to(tl.int32)
        chosen = own[:, None] & (where == tap[:, None])
        g += tl.load(dy + _at(o, c, high, wide, C, FLAT), mask=chosen, other=0.0).to(tl.float32)
    at = client * pixels * C + p[:, None].to(tl.int64) * C + c[None, :]
    value = tl.load(x + at, mask=(p < pixels)[:, None], other=0.0).to(tl.float32)
    normal = (value - m[None, :]) * d[None, :]
    result = scale[None, :] * (g - one[None, :] - normal * two[None, :])
    tl.store(dx + at, result.to(dx.dtype.element_ty), mask=(p < pixels)[:, None])


MOST_PARTS = 512
"""At most so many programs of a client share a sum over its pixels."""
CHANNELS = 8
"""Channels a program takes where few numbers are left."""


class NormReluPool(torch.autograd.Function):
    """y [N, B, h, w, C], or flat features [N, B, C·h·w], of images x [N, B, H, W, C] with batch statistics.

    `sums` [N, tiles, 2, C] are those of x and x². Running statistics and their counter move in place.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, sums: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor,
        counter: Tensor, momentum: float, eps: float, flat: bool,
    ) -> Tensor:  # fmt: skip
        n, b, height, width, c = x.shape
        m, d = torch.empty(2, n, c, device=x.device)
        grid = (triton.cdiv(c, CHANNELS), n)
        _statistics[grid](
            sums, m, d, mean, variance, counter, b * height * width, sums.shape[1], momentum, eps, c, CHANNELS,
            min(triton.next_power_of_2(sums.shape[1]), 1024), num_warps=8,
        )  # fmt: skip
        y, place = pooled(x, m, d, weight, bias, flat)
        ctx.save_for_backward(x, place, m, d, weight)
        ctx.flat = flat
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, place, m, d, weight = ctx.saved_tensors
        dy = dy.contiguous()
        n, b, height, width, c = x.shape
        high, wide = place.shape[2:4]
        pixels, outputs = b * height * width, b * high * wide
        count = parts(n, 8, x.device, MOST_PARTS, 0.0005)
        sums = torch.empty(n, count, 2, c, device=x.device)
        first, second = torch.empty(2, n, c, device=x.device)
        tile = 2048 // c
        per_part = triton.cdiv(triton.cdiv(outputs, count), tile) * tile
        window = (height, width, high, wide, c, ctx.flat)
        _pool_sums[(count, n)](x, dy, place, m, d, sums, outputs, per_part, *window, tile)
        _totals[(triton.cdiv(c, CHANNELS), n)](
            sums, first, second, count, c, CHANNELS, min(triton.next_power_of_2(count), 512)
        )
        dx = None
        if ctx.needs_input_grad[0]:
            dx = torch.empty_like(x)
            tile = 1024 // c
            grid = (triton.cdiv(pixels, tile), n)
            _pool_gradient[grid](x, dy, place, m, d, weight, first, second, dx, pixels, *window, tile, num_warps=2)
        return dx, None, second, first, *[None] * 6


def pooled(
    x: Tensor, mean: Tensor, deviation: Tensor, weight: Tensor, bias: Tensor, flat: bool, *, places: bool = True
) -> tuple[Tensor, Tensor]:
    """The layer's output for given statistics, and the place of each maximum if a backward pass will want it."""
    n, b, height, width, c = x.shape
    high, wide = (height + 1) // 2, (width + 1) // 2
    outputs, tile = b * high * wide, 1024 // c
    y = torch.empty(*((n, b, c * high * wide) if flat else (n, b, high, wide, c)), device=x.device, dtype=x.dtype)
    place = torch.empty(n, b if places else 0, high, wide, c, device=x.device, dtype=torch.uint8)
    grid = (triton.cdiv(outputs, tile), n)
    _pool[grid](x, mean, deviation, weight, bias, y, place, outputs, height, width, high, wide, c, flat, places, tile)
    return y, place
