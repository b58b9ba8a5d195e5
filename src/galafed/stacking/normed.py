"""BatchNorm, max-pool and ReLU as one layer of a processor: normalising comes after pooling, where a quarter is left.

With a positive factor BatchNorm keeps the order of numbers, so the maximum of what it puts out is what it makes of the
maximum. Statistics are those of all numbers nevertheless. Numbers of channels, of which there are few, are computed
with numpy: an operation of torch takes longer to begin than they take.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LAST = torch.channels_last
PIXELS = 16
"""So many pixels side by side are one row, for an operation with a number for each channel goes row by row."""


class Arrays(NamedTuple):
    """The numbers of a BatchNorm, in the same memory."""

    weight: np.ndarray
    bias: np.ndarray
    running_mean: np.ndarray
    running_var: np.ndarray
    num_batches_tracked: np.ndarray


def arrays_of(norm: nn.BatchNorm2d) -> Arrays:
    """Kept with the layer: threads share Python's lock, and each call of torch gives it away and waits for it again."""
    tensors = [
        norm._parameters["weight"],
        norm._parameters["bias"],
        *(norm._buffers[name] for name in Arrays._fields[2:]),
    ]
    kept = norm.__dict__.get("_arrays")
    if kept is None or any(mine is not theirs for mine, theirs in zip(kept[0], tensors, strict=True)):
        kept = norm.__dict__["_arrays"] = (
            tensors,
            Arrays(*(cast(Tensor, value).detach().numpy() for value in tensors)),
        )
    return cast(Arrays, kept[1])


def poolable(norm: nn.BatchNorm2d, y: Tensor) -> bool:
    """Whether normalising may come after pooling: batch statistics, positive factors, channels last in memory."""
    usual = norm.training and norm.affine and norm.track_running_stats and norm.momentum is not None
    known = y.dtype == norm.weight.dtype and y.dtype in (torch.float32, torch.float64)
    return usual and known and y.is_contiguous(memory_format=LAST) and bool(arrays_of(norm).weight.min() > 0)


def norm_pool_relu(norm: nn.BatchNorm2d, pool: nn.MaxPool2d, y: Tensor) -> Tensor:
    """max(0, max-pool(γ (y - μ) / √(σ² + ε) + β)) of [B, C, H, W] with the batch's μ and σ², which are also noted."""
    rows = _rows(y.detach())
    means, count = rows.mean(dim=0), y.numel() // y.shape[1]
    mean, variance = means.numpy(), (rows - means).square_().mean(dim=0).numpy()
    mine = arrays_of(norm)
    mine.num_batches_tracked[...] += 1
    for noted, seen in ((mine.running_mean, mean), (mine.running_var, variance * (count / (count - 1)))):
        noted += (seen - noted) * norm.momentum
    deviation = 1 / np.sqrt(variance + norm.eps)
    if torch.is_grad_enabled() and (y.requires_grad or norm.weight.requires_grad):
        result: Tensor = NormPoolRelu.apply(y, norm.weight, norm.bias, mine, mean, deviation, pool)  # type: ignore[no-untyped-call]
        return result
    return _normalised(pool(y), mine, mean, deviation)


class NormPoolRelu(torch.autograd.Function):
    """The step with gradients for y [B, C, H, W], γ and β [C]."""

    @staticmethod
    def forward(
        ctx: Any,
        y: Tensor,
        weight: Tensor,
        bias: Tensor,
        own: Arrays,
        mean: np.ndarray,
        deviation: np.ndarray,
        pool: nn.MaxPool2d,
    ) -> Tensor:
        pooling = [_both(value) for value in (pool.kernel_size, pool.stride, pool.padding, pool.dilation)]
        ctx.pooling = (*pooling, pool.ceil_mode)
        pooled, places = torch.ops.aten.max_pool2d_with_indices(y, *ctx.pooling)
        result = _normalised(pooled, own, mean, deviation)
        ctx.save_for_backward(y, pooled, places, result)
        ctx.mean, ctx.deviation, ctx.scale = mean, deviation, own.weight * deviation
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """∂y = s g' - s (Σg + ŷ Σ(g ŷ)) / N with s = γ / √(σ² + ε), ŷ = (y - μ) / √(σ² + ε), g' at the maxima."""
        y, pooled, places, result = ctx.saved_tensors
        mean, deviation, scale = ctx.mean, ctx.deviation, ctx.scale
        gradient = torch.ops.aten.threshold_backward(gradient.contiguous(memory_format=LAST), result, 0)
        g = _rows(gradient)
        for_bias = g.sum(dim=0)
        for_weight = (_rows(pooled) - torch.from_numpy(mean)).mul_(g).sum(dim=0).mul_(torch.from_numpy(deviation))
        if not ctx.needs_input_grad[0]:
            return None, for_weight, for_bias, None, None, None, None
        share = scale / (y.numel() // y.shape[1])
        slope = -share * deviation * for_weight.numpy()
        constant = -share * for_bias.numpy() - mean * slope
        g.mul_(torch.from_numpy(scale))
        for_y = torch.ops.aten.max_pool2d_with_indices_backward(gradient, y, *ctx.pooling, places)
        wide, (slopes, constants) = _wide(y, slope, constant)
        _wide(for_y)[0].addcmul_(wide, slopes).add_(constants)
        return for_y, for_weight, for_bias, None, None, None, None


def _normalised(x: Tensor, own: Arrays, mean: np.ndarray, deviation: np.ndarray) -> Tensor:
    """max(0, γ (x - μ) / √(σ² + ε) + β)."""
    scale = own.weight * deviation
    wide, (shifts, scales) = _wide(x, own.bias - mean * scale, scale)
    result = torch.addcmul(shifts, wide, scales).relu_()
    return result.view(x.shape[0], *x.shape[2:], -1).permute(0, 3, 1, 2)


def _rows(y: Tensor) -> Tensor:
    """[B, C, H, W] with channels last in memory as [B · H · W, C]."""
    return y.permute(0, 2, 3, 1).flatten(0, 2)


def _wide(y: Tensor, *channels: np.ndarray) -> tuple[Tensor, list[Tensor]]:
    """Several pixels as one row [B · H · W / k, k · C], and numbers of channels [C] k times: few channels are slow."""
    rows = _rows(y)
    k = math.gcd(len(rows), PIXELS)
    return rows.view(len(rows) // k, -1), [torch.from_numpy(np.tile(value, k)) for value in channels]


def _both(value: int | tuple[int, ...]) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)
