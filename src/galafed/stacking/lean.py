"""A bench for a processor: BatchNorm is folded into the convolution before it or comes after pooling, as ReLU does.

Each saves passes over the largest activations; the outputs are the same but for rounding.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from galafed.loops import Bench, Images
from galafed.networks.layers import Dropout
from galafed.stacking.masking import QuickDropout
from galafed.stacking.normed import norm_pool_relu, poolable
from galafed.stacking.pooling import QuickMaxPool
from galafed.stacking.twins import pool_first
from galafed.work import Batch


@dataclass(frozen=True)
class LeanBench(Bench):
    """Makes its modules of lean sequences."""

    def make(self, part: str) -> nn.Module:
        return lean(super().make(part))

    def batch(
        self, data: Images, index: Tensor | slice, *, labelled: bool, rows: Mapping[str, Tensor] | None = None
    ) -> Batch:
        if not isinstance(index, Tensor):
            return super().batch(data, index, labelled=labelled, rows=rows)
        # Whole images are copied, not byte after byte.
        images = self.network.prepare(data.images.index_select(0, index), self.dtype)
        labels = data.labels.index_select(0, index) if labelled and data.labels is not None else None
        return Batch(images, labels, rows={name: v.index_select(0, index) for name, v in (rows or {}).items()})


def lean(module: nn.Module) -> nn.Module:
    """The module with a lean sequence wherever it has a plain one; names and tensors stay."""
    if make := LEAN.get(type(module)):
        return make(module)
    children = list(module.named_children())
    if type(module) is nn.Sequential:
        return LeanSequential(OrderedDict((name, lean(child)) for name, child in pool_first(children)))
    module._modules.update((name, lean(child)) for name, child in children)
    return module


LEAN: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    nn.MaxPool2d: QuickMaxPool,
    Dropout: lambda layer: QuickDropout(layer.p, layer=layer.layer),
}


class LeanSequential(nn.Sequential):
    """A sequence that takes a convolution and what follows it as one layer where that saves passes over memory."""

    def __init__(self, layers: OrderedDict[str, nn.Module]) -> None:
        super().__init__(layers)
        self._plan = _plan(list(layers.values()))

    def forward(self, x: Tensor) -> Tensor:
        for apply in self._plan:
            x = apply(x)
        return x


def _plan(layers: list[nn.Module]) -> list[Callable[[Tensor], Tensor]]:
    """What a sequence does one after the other."""
    plan: list[Callable[[Tensor], Tensor]] = []
    while layers:
        kinds = tuple(map(type, layers[: len(BLOCK)]))
        parts: list[Any] = layers[:4] if kinds == BLOCK else layers[:2] if kinds[:2] == BLOCK[:2] else layers[:1]
        together: dict[int, Callable[..., Tensor]] = {4: block, 2: pair, 1: parts[0]}
        plan.append(partial(together[len(parts)], *parts) if len(parts) > 1 else parts[0])
        del layers[: len(parts)]
    return plan


BLOCK = (nn.Conv2d, nn.BatchNorm2d, QuickMaxPool, nn.ReLU)


def block(convolution: nn.Conv2d, norm: nn.BatchNorm2d, pool: QuickMaxPool, relu: nn.ReLU, x: Tensor) -> Tensor:
    """A convolution, BatchNorm, max-pool and ReLU."""
    if norm.training and poolable(norm, y := cast(Tensor, convolution(x))):
        return norm_pool_relu(norm, pool, y)
    return cast(Tensor, relu(pool(norm(y) if norm.training else pair(convolution, norm, x))))


def pair(convolution: nn.Conv2d, norm: nn.BatchNorm2d, x: Tensor) -> Tensor:
    """A convolution and BatchNorm, folded where that is allowed."""
    plain = convolution.padding_mode != "zeros" or not (norm.affine and norm.track_running_stats)
    if plain or norm.training or torch.is_grad_enabled():
        return cast(Tensor, norm(convolution(x)))
    return folded(convolution, norm, x)


def folded(convolution: nn.Conv2d, norm: nn.BatchNorm2d, x: Tensor) -> Tensor:
    """γ (w ∗ x + b - μ) / √(σ² + ε) + β as one convolution, with the running μ and σ²."""
    mean, variance = cast(Tensor, norm.running_mean), cast(Tensor, norm.running_var)
    scale = norm.weight * (variance + norm.eps).rsqrt()
    shift = norm.bias - mean * scale
    weight = convolution.weight * scale.view(-1, 1, 1, 1)
    bias = shift if convolution.bias is None else shift + convolution.bias * scale
    one = convolution
    return functional.conv2d(x, weight, bias, one.stride, one.padding, one.dilation, one.groups)
