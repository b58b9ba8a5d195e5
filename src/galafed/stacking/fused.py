"""Twins with kernels: sequences of layers become fused ones; parameters stay where the plain twins have them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from galafed.networks.layers import Dropout
from galafed.stacking import kernels
from galafed.stacking.kernels.conv import fits
from galafed.stacking.kernels.depthwise import convolution
from galafed.stacking.kernels.narrow import NarrowLinear, narrow
from galafed.stacking.kernels.pooling import NormReluPool, pooled
from galafed.stacking.kernels.rows import MOST_ROWS, Mask, NormReluMask, StackedMask, normalised
from galafed.stacking.layers import StackedDropout
from galafed.stacking.low import LowConv2d, LowLinear
from galafed.stacking.twins import Twin, twin

Apply = Callable[[Tensor], Tensor]


class FusedSequential(nn.Sequential):
    """A sequence whose layers are applied by a plan, several at a time where one kernel does their work."""

    def __init__(self, layers: dict[str, nn.Module], plan: list[Apply]) -> None:
        super().__init__()
        self._modules = dict(layers)
        self._plan = plan

    def forward(self, x: Tensor) -> Tensor:
        for apply in self._plan:
            x = apply(x)
        return x


def fused_sequence(module: nn.Sequential, count: int) -> nn.Module:
    """The twin of a sequence, with fused layers where the pattern is known."""
    names: list[str] = list(module._modules)
    originals: list[Any] = list(module.children())
    layers: dict[str, nn.Module] = {}
    plan: list[Apply] = []
    while names:
        kinds = tuple(type(layer) for layer in originals[:5])
        if kinds[:4] == CONVOLUTION[:4] and fits(originals[0]) and _pools_like_kernel(originals[3]):
            taken = 5 if kinds == CONVOLUTION else 4
            twins: list[nn.Module] = [
                LowConv2d(originals[0], count),
                *(fused_twin(layer, count) for layer in originals[1:taken]),
            ]
            plan.append(partial(convolve_norm_relu_pool, twins[0], twins[1], taken == 5))
        elif kinds[:3] == PERCEPTRON[:3] and not narrow(originals[0]):
            taken = 4 if kinds[:4] == PERCEPTRON else 3
            twins = [fused_twin(layer, count) for layer in originals[:taken]]
            plan.append(partial(product_norm_relu_mask, twins[0], twins[1], twins[3] if taken == 4 else None))
        else:
            taken, twins = 1, [fused_twin(originals[0], count)]
            plan.append(twins[0])
        layers |= zip(names[:taken], twins, strict=True)
        del originals[:taken], names[:taken]
    return FusedSequential(layers, plan)


CONVOLUTION = (nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.MaxPool2d, nn.Flatten)
PERCEPTRON = (nn.Linear, nn.BatchNorm1d, nn.ReLU, Dropout)


class FusedDropout(StackedDropout):
    """`StackedDropout` as one kernel."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        result: Tensor = StackedMask.apply(x, self.key, Mask(self.p, self.layer))
        return result


def fused_linear(layer: nn.Linear, count: int) -> nn.Module:
    """The twin of a fully connected layer, by its size."""
    return NarrowLinear(layer, count) if narrow(layer) else LowLinear(layer, count)


FUSED: dict[type[nn.Module], Twin] = {
    nn.Sequential: fused_sequence,
    nn.Conv2d: convolution,
    nn.Linear: fused_linear,
    Dropout: FusedDropout,
}


def fused_twin(module: nn.Module, count: int) -> nn.Module:
    """`twin`, with kernels."""
    return twin(module, count, FUSED)


def convolve_norm_relu_pool(convolution: Any, norm: Any, flat: bool, x: Tensor) -> Tensor:
    """Convolution, BatchNorm, ReLU, max-pool and, if `flat`, flattening."""
    x = x.permute(0, 1, 3, 4, 2).to(kernels.LOW).contiguous()  # no copy where channels are last already
    y, sums = convolution.convolve(x, norm_follows=norm.training)
    if norm.training:
        result: Tensor = NormReluPool.apply(
            y, sums, norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.num_batches_tracked,
            norm.momentum, norm.eps, flat,
        )  # fmt: skip
    else:
        deviation = (norm.running_var + norm.eps).rsqrt()
        result, _ = pooled(y, norm.running_mean, deviation, norm.weight, norm.bias, flat, places=False)
    return result if flat else result.permute(0, 1, 4, 2, 3)


def product_norm_relu_mask(linear: Any, norm: Any, mask: Any, x: Tensor) -> Tensor:
    """A fully connected layer, BatchNorm, ReLU and, where there is one, dropout."""
    if not (norm.training or torch.is_grad_enabled()):
        statistics = (norm.running_mean, norm.running_var)
        return normalised(linear.product(x, None), linear.bias, *statistics, norm.weight, norm.bias, norm.eps)
    if not norm.training or x.shape[1] > MOST_ROWS:
        y: Tensor = norm(linear(x)).relu()
        return y if mask is None else mask(y)
    dropping = mask is not None and mask.training and mask.p > 0
    result: Tensor = NormReluMask.apply(
        linear.product(x, None), linear.bias, norm.weight, norm.bias, norm.running_mean, norm.running_var,
        norm.num_batches_tracked, norm.momentum, norm.eps,
        mask.key if dropping else norm.num_batches_tracked, Mask(mask.p, mask.layer) if dropping else Mask(),
    )  # fmt: skip
    return result


def low_layers(module: nn.Module) -> dict[str, LowLinear | LowConv2d]:
    """The layers of a module that keep their weights in low precision too, by the name of these weights."""
    found = {name: layer for name, layer in module.named_modules() if isinstance(layer, LowLinear | LowConv2d)}
    return {f"{name}.weight".removeprefix("."): layer for name, layer in found.items()}  # a module may be such a layer


def _pools_like_kernel(layer: Any) -> bool:
    numbers = (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode)
    return bool(numbers == (3, 2, 1, 1, False))
