"""Convolutions of many clients at once, stride 1 and "same" padding, as implicit matrix products in channels-last.

Images x [N, B, H, W, I], weights w [N, K·K, I, O] (a matrix for each tap), results y [N, B, H, W, O]; sums in float32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _correlate(
    x,
    w,
    bias,
    y,
    pixels,
    height,
    width,
    I: tl.constexpr,
    O: tl.constexpr,
    K: tl.constexpr,
    BIAS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """y[p, o] = Σ_taps Σ_i x[p + tap, i] w[tap, i, o] (+ bias[o]) for a tile of BM pixels and BN channels."""
    client = tl.program_id(2).to(tl.int64)
    p = tl.program_id(0) * BM + tl.arange(0, BM)
    o = tl.program_id(1) * BN + tl.arange(0, BN)
    i = tl.arange(0, BK)
    inside = p < pixels
    row = (p // width) % height
    column = p % width
    x += client * pixels * I
    w += client * K * K * I * O
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(K * K * (I // BK)):
        tap = step // (I // BK)
        block = (step % (I // BK)) * BK
        down = tap // K - K // 2
        right = tap % K - K // 2
        here = inside & (row + down >= 0) & (row + down < height) & (column + right >= 0) & (column + right < width)
        place = (p + down * width + right) * I
        a = tl.load(x + place[:, None] + block + i[None, :], mask=here[:, None], other=0.0)
        b = tl.load(w + (tap * I + block + i)[:, None] * O + o[None, :])
        total = tl.dot(a, b, total)
    if BIAS:
        total += tl.load(bias + client * O + o)[None, :]
    place = client * pixels * O + p[:, None].to(tl.int64) * O + o[None, :]
    tl.store(y + place, total.to(y.dtype.element_ty), mask=inside[:, None])


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
    x,
    w,
    bias,
    y,
    pixels,
    height,
    width,
    I: tl.constexpr,
    O: tl.constexpr,
    K: tl.constexpr,
    BIAS: tl.constexpr,
    BM: tl.constexpr,
    BK: tl.constexpr,
):
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
    total = tl.dot(a, b)
    if BIAS:
        total += tl.load(bias + client * O + o)[None, :]
    place = client * pixels * O + p[:, None].to(tl.int64) * O + o[None, :]
    tl.store(y + place, total.to(y.dtype.element_ty), mask=(p < pixels)[:, None])


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


def correlate(x: Tensor, w: Tensor, bias: Tensor | None = None, *, BM=128, BN=128, BK=64, warps=8, stages=3) -> Tensor:
    n, b, h, width, i = x.shape
    taps, o = w.shape[1], w.shape[3]
    y = x.new_empty(n, b, h, width, o)
    pixels = b * h * width
    K = int(taps**0.5)
    if i < 16:
        grid = (triton.cdiv(pixels, BM), n)
        _correlate_few[grid](
            x,
            w,
            x if bias is None else bias,
            y,
            pixels,
            h,
            width,
            i,
            o,
            K,
            bias is not None,
            BM,
            triton.next_power_of_2(taps * i),
            num_warps=warps,
            num_stages=stages,
        )
        return y
    grid = (triton.cdiv(pixels, BM), o // min(BN, o), n)
    _correlate[grid](
        x,
        w,
        x if bias is None else bias,
        y,
        pixels,
        h,
        width,
        i,
        o,
        K,
        bias is not None,
        BM,
        min(BN, o),
        BK,
        num_warps=warps,
        num_stages=stages,
    )
    return y


def weight_gradient(x: Tensor, dy: Tensor, taps: int, *, parts=8, TAPS=2, BP=64, warps=8, stages=3) -> Tensor:
    n, b, h, width, i = x.shape
    o = dy.shape[-1]
    pixels = b * h * width
    K = int(taps**0.5)
    out = torch.empty(n, parts, taps, i, o, device=x.device, dtype=torch.float32)
    per_part = triton.cdiv(triton.cdiv(pixels, parts), BP) * BP
    if i < 16:
        _weight_gradient_few[(parts, n)](
            x,
            dy,
            out,
            pixels,
            h,
            width,
            per_part,
            i,
            o,
            K,
            BP,
            triton.next_power_of_2(taps * i),
            num_warps=warps,
            num_stages=stages,
        )
    else:
        _weight_gradient[(triton.cdiv(taps, TAPS), parts, n)](
            x, dy, out, pixels, h, width, per_part, i, o, K, TAPS, BP, num_warps=warps, num_stages=stages
        )
    return out.sum(1)
