"""Convolutions within each channel, of many clients at once, without padding; and those of one pixel, as products.

Images x [N, B, H, W, C] in channels-last, weights w [N, K·K, C], results y [N, B, H', W', C]; sums in float32. cuDNN
makes a plan for every shape before it convolves channels by themselves, a second for each; these kernels are made once.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from galafed.stacking.kernels import LOW, parts
from galafed.stacking.layers import StackedConv2d

PIXELS = 32
CHANNELS = 64
"""Of a tile; channels beyond the last are left out."""
MOST_PARTS = 64
SIZES = ("pixels", "height", "width", "high", "wide", "area", "share")
"""Numbers that differ from shape to shape, for which a kernel must not be compiled again."""


@triton.jit(do_not_specialize=SIZES)
def _convolve(
    x, w, y, pixels, height, width, high, wide, channels, area, K: tl.constexpr, S: tl.constexpr,
    BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """y[p, c] = Σ_taps x[S p + tap, c] w[tap, c] for a tile of a client's results; its images have `area` pixels."""
    client = tl.program_id(2).to(tl.int64)
    p = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    known = (c < channels)[None, :]
    inside = (p < pixels)[:, None] & known
    first = (p // (high * wide) * height + p // wide % high * S) * width + p % wide * S
    x += client * area * channels
    w += client * K * K * channels
    total = tl.zeros((BM, BC), dtype=tl.float32)
    for tap in tl.static_range(K * K):
        place = (first + tap // K * width + tap % K).to(tl.int64)[:, None] * channels + c[None, :]
        a = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(w + tap * channels + c[None, :], mask=known, other=0.0).to(tl.float32)
        total += a * b
    place = (client * pixels + p)[:, None] * channels + c[None, :]
    tl.store(y + place, total.to(y.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=SIZES)
def _turn(
    dy, w, dx, pixels, height, width, high, wide, channels, area, K: tl.constexpr, S: tl.constexpr,
    BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """dx[q, c] = Σ_taps dy[(q - tap) / S, c] w[tap, c] where that is one of `area` results, for a tile of pixels q."""
    client = tl.program_id(2).to(tl.int64)
    q = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    known = (c < channels)[None, :]
    inside = (q < pixels)[:, None] & known
    image, row, column = q // (height * width), q // width % height, q % width
    dy += client * area * channels
    w += client * K * K * channels
    total = tl.zeros((BM, BC), dtype=tl.float32)
    for tap in tl.static_range(K * K):
        down, right = row - tap // K, column - tap % K
        here = (down >= 0) & (right >= 0) & (down % S == 0) & (right % S == 0)
        here = here & (down // S < high) & (right // S < wide)
        place = ((image * high + down // S) * wide + right // S).to(tl.int64)[:, None] * channels + c[None, :]
        a = tl.load(dy + place, mask=inside & here[:, None], other=0.0).to(tl.float32)
        b = tl.load(w + tap * channels + c[None, :], mask=known, other=0.0).to(tl.float32)
        total += a * b
    place = (client * pixels + q)[:, None] * channels + c[None, :]
    tl.store(dx + place, total.to(dx.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=SIZES)
def _gradient(
    x, dy, dw, pixels, height, width, high, wide, channels, area, share, K: tl.constexpr, S: tl.constexpr,
    BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """dw[part, tap, c] = Σ_p x[S p + tap, c] dy[p, c] over a share of the results, for one tap."""
    client = tl.program_id(2).to(tl.int64)
    part = tl.program_id(0) // (K * K)
    tap = tl.program_id(0) % (K * K)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    known = (c < channels)[None, :]
    x += client * area * channels
    dy += client * pixels * channels
    total = tl.zeros((BM, BC), dtype=tl.float32)
    for start in range(part * share, part * share + share, BM):
        p = start + tl.arange(0, BM)
        inside = (p < pixels)[:, None] & known
        first = (p // (high * wide) * height + p // wide % high * S + tap // K) * width + p % wide * S + tap % K
        a = tl.load(x + first.to(tl.int64)[:, None] * channels + c[None, :], mask=inside, other=0.0).to(tl.float32)
        b = tl.load(dy + p.to(tl.int64)[:, None] * channels + c[None, :], mask=inside, other=0.0).to(tl.float32)
        total += a * b
    place = (client * tl.num_programs(0) + tl.program_id(0)) * channels + c
    tl.store(dw + place, tl.sum(total, axis=0), mask=c < channels)


class Depthwise(torch.autograd.Function):
    """Images [N, B, H, W, C] and weights [N, K·K, C] to [N, B, H', W', C], every `stride` pixels."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, stride: int) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.stride = stride
        n, b, height, width, channels = x.shape
        k = round(w.shape[1] ** 0.5)
        high, wide = (height - k) // stride + 1, (width - k) // stride + 1
        y = torch.empty(n, b, high, wide, channels, device=x.device, dtype=x.dtype)
        pixels, sizes = b * high * wide, (height, width, high, wide, channels)
        grid = (triton.cdiv(pixels, PIXELS), triton.cdiv(channels, CHANNELS), n)
        _convolve[grid](x, w, y, pixels, *sizes, b * height * width, k, stride, PIXELS, CHANNELS, num_warps=4)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        dy = dy.contiguous()
        n, b, height, width, channels = x.shape
        k, stride, (high, wide) = round(w.shape[1] ** 0.5), ctx.stride, dy.shape[2:4]
        sizes, blocks = (height, width, high, wide, channels), triton.cdiv(channels, CHANNELS)
        dx = dw = None
        if ctx.needs_input_grad[0]:
            dx, pixels = torch.empty_like(x), b * height * width
            grid = (triton.cdiv(pixels, PIXELS), blocks, n)
            _turn[grid](dy, w, dx, pixels, *sizes, b * high * wide, k, stride, PIXELS, CHANNELS, num_warps=4)
        if ctx.needs_input_grad[1]:
            pixels = b * high * wide
            count = parts(n * blocks * k * k, 8, x.device, MOST_PARTS, 0.001)
            share = triton.cdiv(triton.cdiv(pixels, count), PIXELS) * PIXELS
            found = torch.empty(n, count, k * k, channels, device=x.device, dtype=torch.float32)
            grid = (count * k * k, blocks, n)
            _gradient[grid](
                x, dy, found, pixels, *sizes, b * height * width, share, k, stride, PIXELS, CHANNELS, num_warps=4
            )  # fmt: skip
            dw = found.sum(dim=1).to(w.dtype)
        return dx, dw, None


class DepthwiseConv2d(StackedConv2d):
    """A convolution within each channel, for all clients at once."""

    def forward(self, x: Tensor) -> Tensor:
        one = cast(nn.Conv2d, self.layer.module)
        images = x.permute(0, 1, 3, 4, 2).to(LOW).contiguous()  # no copy where channels are last already
        weight = self.weight.flatten(2).transpose(1, 2).contiguous()
        y: Tensor = Depthwise.apply(images, weight, one.stride[0])
        if self.bias is not None:
            y = y + self.bias.to(y.dtype)[:, None, None, None]
        return y.permute(0, 1, 4, 2, 3)


class PointwiseConv2d(StackedConv2d):
    """A convolution of one pixel: y[p] = w x[p] + b, a product of all pixels with the weights, for all clients."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x.permute(0, 1, 3, 4, 2).to(LOW)
        y = torch.bmm(rows.flatten(1, 3), self.weight.flatten(2).to(LOW).mT)
        if self.bias is not None:
            y = y + self.bias.to(LOW)[:, None]
        result: Tensor = y.unflatten(1, rows.shape[1:4]).permute(0, 1, 4, 2, 3)
        return result


def convolution(layer: nn.Conv2d, count: int) -> nn.Module:
    """The twin of a convolution, by its kind."""
    plain = layer.padding == (0, 0) and layer.dilation == (1, 1) and layer.padding_mode == "zeros"
    square = layer.kernel_size[0] == layer.kernel_size[1] and layer.stride[0] == layer.stride[1]
    if plain and square and layer.groups == layer.in_channels == layer.out_channels > 1:
        return DepthwiseConv2d(layer, count)
    if plain and layer.groups == 1 and layer.kernel_size == layer.stride == (1, 1):
        return PointwiseConv2d(layer, count)
    return StackedConv2d(layer, count)
