"""Twins with kernels: sequences of layers are matched to fused ones; parameters stay where the plain twins have them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from torch import Tensor, nn

from galafed.networks.layers import Dropout
from galafed.stacking import kernels
from galafed.stacking.kernels.conv import Convolution, fits
from galafed.stacking.kernels.linear import Product, descend
from galafed.stacking.kernels.pooling import NormReluPool, pooled
from galafed.stacking.kernels.rows import MOST_ROWS, Mask, NormReluMask, StackedMask
from galafed.stacking.layers import StackedBatchNorm, StackedConv2d, StackedDropout, StackedLinear
from galafed.stacking.twins import Twin, twin
from galafed.work import Sgd

Apply = Callable[[Tensor], Tensor]


class LowLinear(StackedLinear):
    """A fully connected layer with a copy of its weights in low precision, which the optimiser keeps up to date.

    The backward pass does not form the weights' gradient; it leaves its two factors in `pending`, and `descend` makes
    gradient and step of them in one pass over the weights.
    """

    low: Tensor

    def __init__(self, layer: nn.Linear, count: int) -> None:
        super().__init__(layer, count)
        self.before_norm = False
        self.pending: list[tuple[Tensor, Tensor]] = []

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = Product.apply(x.to(self.low.dtype), self.weight, self.bias, self)
        return result

    def descend(self, x: Tensor, dy: Tensor, momentum: Tensor, rate: Tensor, sgd: Sgd) -> None:
        """One step of the weights, with the gradient dyᵀ x."""
        weight = cast(Tensor, self.weight).data
        descend(x, dy, weight, momentum, self.low, rate, mu=sgd.momentum, decay=sgd.weight_decay)


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
    layers = {name: fused_twin(child, count) for name, child in module.named_children()}
    originals, twins = list(module.children()), list(layers.values())
    plan: list[Apply] = []
    place = 0
    while place < len(twins):
        here, kinds = twins[place], tuple(type(layer) for layer in originals[place : place + 3])
        before_norm = len(kinds) > 1 and kinds[1] in (nn.BatchNorm1d, nn.BatchNorm2d)
        taken = 1
        if kinds == (nn.BatchNorm2d, nn.ReLU, nn.MaxPool2d) and _pools_like_kernel(originals[place + 2]):
            plan.append(partial(norm_relu_pool, here))
            taken = 3
        elif kinds[:2] == (nn.BatchNorm1d, nn.ReLU):
            mask = twins[place + 2] if kinds[2:] == (Dropout,) else None
            plan.append(partial(norm_relu_mask, here, mask))
            taken = 3 if mask is not None else 2
        elif isinstance(here, StackedConv2d) and fits(originals[place]):
            plan.append(partial(convolve, here, before_norm))
        else:
            if isinstance(here, LowLinear):
                here.before_norm = before_norm
            plan.append(here)
        place += taken
    return FusedSequential(layers, plan)


class FusedDropout(StackedDropout):
    """`StackedDropout` as one kernel."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        result: Tensor = StackedMask.apply(x, self.key, Mask(self.p, self.layer))
        return result


FUSED: dict[type[nn.Module], Twin] = {nn.Sequential: fused_sequence, nn.Linear: LowLinear, Dropout: FusedDropout}


def fused_twin(module: nn.Module, count: int) -> nn.Module:
    """`twin`, with kernels."""
    return twin(module, count, FUSED)


def convolve(layer: Any, before_norm: bool, x: Tensor) -> Tensor:
    """`StackedConv2d`; where BatchNorm follows in training, the bias has no gradient: the mean takes it away again."""
    free = not (before_norm and layer.training)
    y: Tensor = Convolution.apply(_channels_last(x), layer.weight, layer.bias, free)
    return y.permute(0, 1, 4, 2, 3)


def norm_relu_pool(layer: Any, x: Tensor) -> Tensor:
    """`StackedBatchNorm`, ReLU and max-pool."""
    x = _channels_last(x)
    if layer.training:
        layer.num_batches_tracked += 1
        y: Tensor = NormReluPool.apply(
            x, layer.weight, layer.bias, layer.running_mean, layer.running_var, layer.momentum, layer.eps
        )
    else:
        deviation = (layer.running_var + layer.eps).rsqrt()
        y, _ = pooled(x, layer.running_mean, deviation, layer.weight, layer.bias)
    return y.permute(0, 1, 4, 2, 3)


def norm_relu_mask(layer: Any, mask: Any, x: Tensor) -> Tensor:
    """`StackedBatchNorm`, ReLU and, where there is one, dropout."""
    if not layer.training or x.shape[1] > MOST_ROWS:
        y = layer(x).relu()
        return y if mask is None else mask(y)
    layer.num_batches_tracked += 1
    dropping = mask is not None and mask.training and mask.p > 0
    keys = mask.key if dropping else layer.num_batches_tracked
    result: Tensor = NormReluMask.apply(
        x.contiguous(), layer.weight, layer.bias, layer.running_mean, layer.running_var, layer.momentum, layer.eps,
        keys, Mask(mask.p, mask.layer) if dropping else Mask(),
    )  # fmt: skip
    return result


def low_layers(module: nn.Module) -> dict[str, LowLinear]:
    """The layers of a module that keep their weights in low precision too, by name."""
    return {name: layer for name, layer in module.named_modules() if isinstance(layer, LowLinear)}


def _channels_last(x: Tensor) -> Tensor:
    """[n, B, C, H, W] -> [n, B, H, W, C] in bfloat16; no copy where it lies in memory like that."""
    return x.permute(0, 1, 3, 4, 2).to(kernels.LOW).contiguous()


def _pools_like_kernel(layer: Any) -> bool:
    numbers = (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode)
    return bool(numbers == (3, 2, 1, 1, False))
