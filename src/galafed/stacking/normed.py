"""BatchNorm, max-pool and ReLU as one layer of a processor: normalising comes after pooling, where a quarter is left.

With a positive factor BatchNorm keeps the order of numbers, so the maximum of what it puts out is what it makes of the
maximum. Statistics are those of all numbers nevertheless. Numbers of channels, of which there are few, are computed
with numpy: an operation of torch takes longer to begin than they take.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LAST = torch.channels_last


def poolable(norm: nn.BatchNorm2d, y: Tensor) -> bool:
    """Whether normalising may come after pooling: batch statistics, positive factors, channels last in memory."""
    usual = norm.training and norm.affine and norm.track_running_stats and norm.momentum is not None
    known = y.dtype == norm.weight.dtype and y.dtype in (torch.float32, torch.float64)
    return usual and known and y.is_contiguous(memory_format=LAST) and bool(_array(norm.weight).min() > 0)


def norm_pool_relu(norm: nn.BatchNorm2d, pool: nn.MaxPool2d, y: Tensor) -> Tensor:
    """max(0, max-pool(γ (y - μ) / √(σ² + ε) + β)) of [B, C, H, W] with the batch's μ and σ², which are also noted."""
    rows = _rows(y.detach())
    means = rows.mean(dim=0)
    mean, variance = _array(means), _array((rows - means).square_().mean(dim=0))
    cast(Tensor, norm.num_batches_tracked).add_(1)
    for noted, seen in ((norm.running_mean, mean), (norm.running_var, variance * (len(rows) / (len(rows) - 1)))):
        kept = _array(cast(Tensor, noted))  # the same memory
        kept += (seen - kept) * norm.momentum
    deviation = 1 / np.sqrt(variance + norm.eps)
    if torch.is_grad_enabled() and (y.requires_grad or norm.weight.requires_grad):
        result: Tensor = NormPoolRelu.apply(y, norm.weight, norm.bias, mean, deviation, pool)  # type: ignore[no-untyped-call]
        return result
    return _normalised(pool(y), norm.weight, norm.bias, mean, deviation)


class NormPoolRelu(torch.autograd.Function):
    """The step with gradients for y [B, C, H, W], γ and β [C]."""

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, weight: Tensor, bias: Tensor, mean: np.ndarray, deviation: np.ndarray, pool: nn.MaxPool2d
    ) -> Tensor:
        pooling = [_both(value) for value in (pool.kernel_size, pool.stride, pool.padding, pool.dilation)]
        ctx.pooling = (*pooling, pool.ceil_mode)
        pooled, places = torch.ops.aten.max_pool2d_with_indices(y, *ctx.pooling)
        result = _normalised(pooled, weight, bias, mean, deviation)
        ctx.save_for_backward(y, pooled, places, result, weight)
        ctx.mean, ctx.deviation = mean, deviation
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """∂y = s g' - s (Σg + ŷ Σ(g ŷ)) / N with s = γ / √(σ² + ε), ŷ = (y - μ) / √(σ² + ε), g' at the maxima."""
        y, pooled, places, result, weight = ctx.saved_tensors
        mean, deviation = ctx.mean, ctx.deviation
        gradient = torch.ops.aten.threshold_backward(gradient.contiguous(memory_format=LAST), result, 0)
        g = _rows(gradient)
        for_bias = g.sum(dim=0)
        for_weight = (_rows(pooled) - torch.from_numpy(mean)).mul_(g).sum(dim=0).mul_(torch.from_numpy(deviation))
        if not ctx.needs_input_grad[0]:
            return None, for_weight, for_bias, None, None, None
        scale = _array(weight) * deviation
        share = scale / (y.numel() // y.shape[1])
        slope = -share * deviation * _array(for_weight)
        constant = -share * _array(for_bias) - mean * slope
        gradient.mul_(_channels(scale))
        for_y = torch.ops.aten.max_pool2d_with_indices_backward(gradient, y, *ctx.pooling, places)
        for_y.addcmul_(y, _channels(slope)).add_(_channels(constant))
        return for_y, for_weight, for_bias, None, None, None


def _normalised(x: Tensor, weight: Tensor, bias: Tensor, mean: np.ndarray, deviation: np.ndarray) -> Tensor:
    """max(0, γ (x - μ) / √(σ² + ε) + β)."""
    scale = _array(weight) * deviation
    return torch.addcmul(_channels(_array(bias) - mean * scale), x, _channels(scale)).relu_()


def _array(value: Tensor) -> np.ndarray:
    """The numbers of a tensor, in the same memory."""
    array: np.ndarray = value.detach().numpy()
    return array


def _rows(y: Tensor) -> Tensor:
    """[B, C, H, W] with channels last in memory as [B · H · W, C]."""
    return y.permute(0, 2, 3, 1).flatten(0, 2)


def _channels(value: np.ndarray) -> Tensor:
    return torch.from_numpy(value).view(1, -1, 1, 1)


def _both(value: int | tuple[int, ...]) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)
