"""BatchNorm, max-pool and ReLU as one layer of a processor: normalising comes after pooling, where a quarter is left.

With a positive factor BatchNorm keeps the order of numbers, so the maximum of what it puts out is what it makes of the
maximum. Statistics are those of all numbers nevertheless.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LAST = torch.channels_last


def poolable(norm: nn.BatchNorm2d, pool: nn.MaxPool2d, y: Tensor) -> bool:
    """Whether normalising may come after pooling: batch statistics, positive factors, channels last in memory."""
    usual = norm.affine and norm.track_running_stats and norm.momentum is not None and not pool.return_indices
    lies = y.is_contiguous(memory_format=LAST) and y.dtype == norm.weight.dtype
    return usual and lies and norm.training and bool((norm.weight > 0).all())


def norm_pool_relu(norm: nn.BatchNorm2d, pool: nn.MaxPool2d, y: Tensor) -> Tensor:
    """max(0, max-pool(γ (y - μ) / √(σ² + ε) + β)) of [B, C, H, W] with the batch's μ and σ², which are also noted."""
    rows = _rows(y.detach())
    mean = rows.mean(dim=0)
    variance = (rows - mean).square_().mean(dim=0)
    with torch.no_grad():
        cast(Tensor, norm.num_batches_tracked).add_(1)
        share, count = cast(float, norm.momentum), len(rows)
        cast(Tensor, norm.running_mean).lerp_(mean, share)
        cast(Tensor, norm.running_var).lerp_(variance * (count / (count - 1)), share)
    deviation = (variance + norm.eps).rsqrt_()
    if y.requires_grad or (norm.weight.requires_grad and torch.is_grad_enabled()):
        result: Tensor = NormPoolRelu.apply(y, norm.weight, norm.bias, mean, deviation, pool)  # type: ignore[no-untyped-call]
        return result
    return _normalised(pool(y), norm.weight, norm.bias, mean, deviation)


class NormPoolRelu(torch.autograd.Function):
    """The step with gradients for y [B, C, H, W], γ and β [C]."""

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, deviation: Tensor, pool: nn.MaxPool2d
    ) -> Tensor:
        settings = (pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode)
        pooled, places = torch.ops.aten.max_pool2d_with_indices(y, *map(_both, settings[:4]), settings[4])
        result = _normalised(pooled, weight, bias, mean, deviation)
        ctx.save_for_backward(y, pooled, places, result, weight, mean, deviation)
        ctx.settings = settings
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """∂y = s g' - s (Σg + ŷ Σ(g ŷ)) / N with s = γ / √(σ² + ε), ŷ = (y - μ) / √(σ² + ε), g' at the maxima."""
        y, pooled, places, result, weight, mean, deviation = ctx.saved_tensors
        gradient = torch.ops.aten.threshold_backward(gradient.contiguous(memory_format=LAST), result, 0)
        g = _rows(gradient)
        for_bias = g.sum(dim=0)
        for_weight = ((_rows(pooled) - mean).mul_(g)).sum(dim=0) * deviation
        if not ctx.needs_input_grad[0]:
            return None, for_weight, for_bias, None, None, None
        count = y.numel() // y.shape[1]
        scale = weight * deviation
        slope = -scale * deviation * for_weight / count
        constant = -scale * for_bias / count - mean * slope
        kernel, stride, padding, dilation = map(_both, ctx.settings[:4])
        for_y = torch.ops.aten.max_pool2d_with_indices_backward(
            gradient.mul_(_channels(scale)), y, kernel, stride, padding, dilation, ctx.settings[4], places
        )
        for_y.addcmul_(y, _channels(slope)).add_(_channels(constant))
        return for_y, for_weight, for_bias, None, None, None


def _normalised(x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """max(0, γ (x - μ) / √(σ² + ε) + β)."""
    scale = weight * deviation
    shift = bias - mean * scale
    return torch.addcmul(_channels(shift), x, _channels(scale)).relu_()


def _rows(y: Tensor) -> Tensor:
    """[B, C, H, W] with channels last in memory as [B · H · W, C]."""
    return y.permute(0, 2, 3, 1).flatten(0, 2)


def _channels(value: Tensor) -> Tensor:
    return value.view(1, -1, 1, 1)


def _both(value: int | tuple[int, ...]) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)
