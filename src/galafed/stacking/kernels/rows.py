"""Layers on features [N, B, D]: dropout, and BatchNorm, ReLU and dropout as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from galafed.networks.layers import GOLDEN
from galafed.stacking.kernels import zeros


@triton.jit
def _mix(x):
    """The hash of `galafed.networks.layers.mix`, on uint32."""
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _kept(keys, client, position, salt, threshold):
    """Which positions of a client's batch survive dropout: the mask of `galafed.networks.layers.keep_mask`."""
    key = tl.load(keys + client)
    low = (key & 0x7FFFFFFF).to(tl.uint32)
    high = ((key >> 31) & 0x7FFFFFFF).to(tl.uint32) + salt.to(tl.uint32)
    bits = _mix(_mix(position.to(tl.uint32) ^ low) + high)
    return (bits & 0xFFFFFF).to(tl.int32) >= threshold


@triton.jit
def _dropout(x, y, keys, entries, salt, threshold, scale, BE: tl.constexpr):
    """y = x · kept · scale."""
    client = tl.program_id(1).to(tl.int64)
    e = tl.program_id(0) * BE + tl.arange(0, BE)
    inside = e < entries
    value = tl.load(x + client * entries + e, mask=inside, other=0.0).to(tl.float32)
    value = tl.where(_kept(keys, client, e, salt, threshold), value * scale, 0.0)
    tl.store(y + client * entries + e, value.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _rows_forward(
    x, y, shift, weight, bias, running_mean, running_var, counter, mean, deviation, keys, rows, columns, down, right,
    momentum, eps, salt, threshold, scale, SHIFT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """y = dropout(relu(weight x̂ + bias)) for all rows of BC columns; running statistics follow.

    Steps of `down` and `right` lead through x, which may be the transpose of a matrix.
    SHIFT: x lacks a constant of each column. BatchNorm would take it away again; only the running mean must know it.
    """
    client = tl.program_id(1).to(tl.int64)
    r = tl.arange(0, BR)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    real = c < columns
    inside = (r < rows)[:, None] & real[None, :]
    at = r[:, None] * columns + c[None, :]
    there = r[:, None] * down + c[None, :] * right
    value = tl.load(x + client * rows * columns + there, mask=inside, other=0.0).to(tl.float32)
    m = tl.sum(value, axis=0) / rows
    away = tl.where(inside, value - m[None, :], 0.0)
    variance = tl.sum(away * away, axis=0) / rows
    d = 1.0 / tl.sqrt(variance + eps)
    column = client * columns + c
    old_mean = tl.load(running_mean + column, mask=real, other=0.0)
    old_var = tl.load(running_var + column, mask=real, other=0.0)
    seen = m
    if SHIFT:
        seen += tl.load(shift + column, mask=real, other=0.0)
    tl.store(running_mean + column, old_mean + momentum * (seen - old_mean), mask=real)
    tl.store(running_var + column, old_var + momentum * (variance * (rows / (rows - 1.0)) - old_var), mask=real)
    if tl.program_id(0) == 0:
        tl.store(counter + client, tl.load(counter + client) + 1)
    tl.store(mean + column, m, mask=real)
    tl.store(deviation + column, d, mask=real)
    w = tl.load(weight + column, mask=real, other=0.0)
    b = tl.load(bias + column, mask=real, other=0.0)
    result = tl.maximum(away * (d * w)[None, :] + b[None, :], 0.0)
    result = tl.where(_kept(keys, client, at, salt, threshold), result * scale, 0.0)
    tl.store(y + client * rows * columns + at, result.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _rows_backward(
    x, dy, dx, weight, bias, mean, deviation, d_weight, d_bias, keys, rows, columns, down, right,
    salt, threshold, scale, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """dx of `_rows_forward`, and the gradients of weight and bias; the mask is drawn anew."""
    client = tl.program_id(1).to(tl.int64)
    r = tl.arange(0, BR)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    real = c < columns
    inside = (r < rows)[:, None] & real[None, :]
    at = r[:, None] * columns + c[None, :]
    column = client * columns + c
    w = tl.load(weight + column, mask=real, other=0.0)
    b = tl.load(bias + column, mask=real, other=0.0)
    m = tl.load(mean + column, mask=real, other=0.0)
    d = tl.load(deviation + column, mask=real, other=0.0)
    there = r[:, None] * down + c[None, :] * right
    value = tl.load(x + client * rows * columns + there, mask=inside, other=0.0).to(tl.float32)
    normal = tl.where(inside, (value - m[None, :]) * d[None, :], 0.0)
    g = tl.load(dy + client * rows * columns + at, mask=inside, other=0.0).to(tl.float32)
    alive = _kept(keys, client, at, salt, threshold) & (normal * w[None, :] + b[None, :] > 0)
    g = tl.where(alive, g * scale, 0.0)
    first = tl.sum(g, axis=0)
    second = tl.sum(g * normal, axis=0)
    tl.store(d_bias + column, first, mask=real)
    tl.store(d_weight + column, second, mask=real)
    result = (w * d)[None, :] * (g - (first / rows)[None, :] - normal * (second / rows)[None, :])
    tl.store(dx + client * rows * columns + at, result.to(dx.dtype.element_ty), mask=inside)


@triton.jit
def _normalise(
    x, y, shift, weight, bias, mean, variance, rows, columns, down, right, eps, BR: tl.constexpr, BC: tl.constexpr
):  # fmt: skip
    """y = relu(weight (x + shift - mean) / √(variance + eps) + bias) for BR rows of BC columns."""
    client = tl.program_id(2).to(tl.int64)
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    column = client * columns + c
    real = c < columns
    scale = tl.load(weight + column, mask=real, other=0.0) / tl.sqrt(
        tl.load(variance + column, mask=real, other=1.0) + eps
    )
    away = tl.load(shift + column, mask=real, other=0.0) - tl.load(mean + column, mask=real, other=0.0)
    offset = away * scale + tl.load(bias + column, mask=real, other=0.0)
    inside = (r < rows)[:, None] & real[None, :]
    place = client * rows * columns
    value = tl.load(x + place + r[:, None] * down + c[None, :] * right, mask=inside, other=0.0).to(tl.float32)
    result = tl.maximum(value * scale[None, :] + offset[None, :], 0.0)
    tl.store(y + place + r[:, None] * columns + c[None, :], result.to(y.dtype.element_ty), mask=inside)


@dataclass(frozen=True)
class Mask:
    """A dropout layer's share and number; a share of 0 keeps everything."""

    p: float = 0.0
    layer: int = 0

    @property
    def numbers(self) -> tuple[int, int, float]:
        """The salt of the layer, the threshold of its bits, and the factor on what survives."""
        return (self.layer * GOLDEN) & 0xFFFFFFFF, int(self.p * 2**24), 1 / (1 - self.p)


class StackedMask(torch.autograd.Function):
    """Dropout of features [N, B, D] with keys [N]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, keys: Tensor, mask: Mask) -> Tensor:
        ctx.save_for_backward(keys)
        ctx.mask = mask
        return _masked(x.contiguous(), keys, mask)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        return _masked(dy.contiguous(), ctx.saved_tensors[0], ctx.mask), None, None


class NormReluMask(torch.autograd.Function):
    """dropout(relu(BatchNorm(x + shift))) of features x [N, B, D] with batch statistics; no mask without keys.

    The shift [N, D] has no gradient: BatchNorm takes it away again. Running statistics and counter move in place.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, shift: Tensor | None, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor,
        counter: Tensor, momentum: float, eps: float, keys: Tensor, mask: Mask,
    ) -> Tensor:  # fmt: skip
        n, rows, columns = x.shape
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        m, d = torch.empty(2, n, columns, device=x.device)
        high, wide = tile(rows)
        _rows_forward[(triton.cdiv(columns, wide), n)](
            x, y, x if shift is None else shift, weight, bias, mean, variance, counter, m, d, keys, rows, columns,
            *x.stride()[1:], momentum, eps, *mask.numbers, shift is not None, high, wide,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, bias, m, d, keys)
        ctx.mask = mask
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, m, d, keys = ctx.saved_tensors
        n, rows, columns = x.shape
        dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        d_weight, d_bias = torch.empty(2, n, columns, device=x.device)
        d_shift = zeros(n, columns, x.device) if ctx.needs_input_grad[1] else None
        high, wide = tile(rows)
        _rows_backward[(triton.cdiv(columns, wide), n)](
            x, dy.contiguous(), dx, weight, bias, m, d, d_weight, d_bias, keys, rows, columns,
            *x.stride()[1:], *ctx.mask.numbers, high, wide,
        )  # fmt: skip
        return dx, d_shift, d_weight, d_bias, *[None] * 7


def normalised(
    x: Tensor, shift: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> Tensor:
    """relu(BatchNorm(x + shift)) of features x [N, B, D] with given statistics, without a gradient."""
    n, rows, columns = x.shape
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _normalise[(triton.cdiv(rows, 16), triton.cdiv(columns, 128), n)](
        x, y, shift, weight, bias, mean, variance, rows, columns, *x.stride()[1:], eps, 16, 128
    )
    return y


MOST_ROWS = 1024
"""Batches up to this size fit the registers of one program, all rows of a few columns at a time."""


def tile(rows: int) -> tuple[int, int]:
    """How many rows and columns a program takes."""
    high = max(triton.next_power_of_2(rows), 16)
    return high, max(2048 // high, 8)


def _masked(x: Tensor, keys: Tensor, mask: Mask) -> Tensor:
    y = torch.empty_like(x)
    entries = x.shape[1:].numel()
    _dropout[(triton.cdiv(entries, 1024), x.shape[0])](x, y, keys, entries, *mask.numbers, 1024)
    return y
