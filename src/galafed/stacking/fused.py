"""Twins with kernels: sequences of layers become fused ones; parameters stay where the plain twins have them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from galafed.networks.layers import Dropout
from galafed.stacking import kernels
from galafed.stacking.graphs import background
from galafed.stacking.kernels.conv import Convolution, fits
from galafed.stacking.kernels.linear import Product, descend
from galafed.stacking.kernels.pooling import NormReluPool, pooled
from galafed.stacking.kernels.rows import MOST_ROWS, Mask, NormReluMask, StackedMask
from galafed.stacking.layers import StackedDropout, StackedLinear
from galafed.stacking.twins import Twin, twin
from galafed.work import Sgd

Apply = Callable[[Tensor], Tensor]


class LowLinear(StackedLinear):
    """A fully connected layer with a copy of its weights in low precision, which the optimiser keeps up to date.

    The backward pass does not form the weights' gradient; it leaves its two factors in `pending`, and `descend` makes
    gradient and step of them in one pass over the weights. That pass is bound by memory and convolutions are not, so
    on a GPU it runs in the background until the weights are needed again.
    """

    low: Tensor

    def __init__(self, layer: nn.Linear, count: int) -> None:
        super().__init__(layer, count)
        self.pending: list[tuple[Tensor, Tensor]] = []
        self.unused: torch.cuda.Event | None = None
        """From here on the backward pass needs the weights no more."""
        self._descending: tuple[torch.cuda.Event, tuple[Tensor, Tensor]] | None = None

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x, self.bias)

    def product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x wᵀ + bias."""
        self.settle()
        result: Tensor = Product.apply(x.to(self.low.dtype), self.weight, bias, self)
        return result

    def descend(self, momentum: Tensor, rate: Tensor, sgd: Sgd) -> None:
        """One step of the weights, with the gradient the backward pass left."""
        factors = zip(*self.pending, strict=True)
        x, dy = self.pending[0] if len(self.pending) == 1 else (torch.cat(each, dim=1) for each in factors)
        self.pending.clear()
        weight = cast(Tensor, self.weight).data
        numbers = {"mu": sgd.momentum, "decay": sgd.weight_decay}
        if self.unused is None:
            descend(x, dy, weight, momentum, self.low, rate, **numbers)
            return
        side = background(x.device)
        side.wait_event(self.unused)
        with torch.cuda.stream(side):
            descend(x, dy, weight, momentum, self.low, rate, **numbers)
        # The factors must not be freed before the foreground has waited: their memory would be used again.
        self._descending = (side.record_event(), (x, dy))

    def settle(self) -> None:
        """Wait until the weights are up to date."""
        if self._descending is not None:
            torch.cuda.current_stream(self.low.device).wait_event(self._descending[0])
            self._descending = None


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
    while twins:
        kinds = tuple(type(layer) for layer in originals[:4])
        if kinds == CONVOLUTION[:4] and fits(originals[0]) and _pools_like_kernel(originals[3]):
            flat = tuple(type(layer) for layer in originals[:5]) == CONVOLUTION
            plan.append(partial(convolve_norm_relu_pool, twins[0], twins[1], flat))
            taken = 5 if flat else 4
        elif kinds[:3] == PERCEPTRON[:3]:
            mask = twins[3] if kinds == PERCEPTRON else None
            plan.append(partial(product_norm_relu_mask, twins[0], twins[1], mask))
            taken = 3 if mask is None else 4
        else:
            plan.append(twins[0])
            taken = 1
        del originals[:taken], twins[:taken]
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


FUSED: dict[type[nn.Module], Twin] = {nn.Sequential: fused_sequence, nn.Linear: LowLinear, Dropout: FusedDropout}


def fused_twin(module: nn.Module, count: int) -> nn.Module:
    """`twin`, with kernels."""
    return twin(module, count, FUSED)


def convolve_norm_relu_pool(convolution: Any, norm: Any, flat: bool, x: Tensor) -> Tensor:
    """Convolution, BatchNorm, ReLU, max-pool and, if `flat`, flattening."""
    x = x.permute(0, 1, 3, 4, 2).to(kernels.LOW).contiguous()  # no copy where channels are last already
    y, sums = Convolution.apply(x, convolution.weight, convolution.bias, norm.training)
    if norm.training:
        result: Tensor = NormReluPool.apply(
            y, sums, norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.num_batches_tracked,
            norm.momentum, norm.eps, flat,
        )  # fmt: skip
    else:
        deviation = (norm.running_var + norm.eps).rsqrt()
        result, _ = pooled(y, norm.running_mean, deviation, norm.weight, norm.bias, flat)
    return result if flat else result.permute(0, 1, 4, 2, 3)


def product_norm_relu_mask(linear: Any, norm: Any, mask: Any, x: Tensor) -> Tensor:
    """A fully connected layer, BatchNorm, ReLU and, where there is one, dropout."""
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


def low_layers(module: nn.Module) -> dict[str, LowLinear]:
    """The layers of a module that keep their weights in low precision too, by name."""
    return {name: layer for name, layer in module.named_modules() if isinstance(layer, LowLinear)}


def _pools_like_kernel(layer: Any) -> bool:
    numbers = (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode)
    return bool(numbers == (3, 2, 1, 1, False))
