"""A bench for a processor's sweeps: BatchNorm is folded into the convolution before it, and pooling comes before ReLU.

Both save a pass over the largest activations; in eval mode the outputs are the same but for rounding.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from galafed.loops import Bench
from galafed.stacking.pooling import QuickMaxPool
from galafed.stacking.twins import pool_first


@dataclass(frozen=True)
class LeanBench(Bench):
    """Makes its modules of lean sequences."""

    def make(self, part: str) -> nn.Module:
        return lean(super().make(part))


def lean(module: nn.Module) -> nn.Module:
    """The module with a lean sequence wherever it has a plain one; names and tensors stay."""
    if type(module) is nn.MaxPool2d:
        return QuickMaxPool(module)
    children = [(name, lean(child)) for name, child in module.named_children()]
    if type(module) is nn.Sequential:
        return LeanSequential(OrderedDict(pool_first(children)))
    module._modules.update(children)
    return module


class LeanSequential(nn.Sequential):
    """A sequence that in eval mode, without gradients, takes a convolution and its BatchNorm as one layer."""

    def forward(self, x: Tensor) -> Tensor:
        layers = list(self)
        while layers:
            layer = layers.pop(0)
            if isinstance(layer, nn.Conv2d) and layers and isinstance(layers[0], nn.BatchNorm2d):
                x = pair(layer, cast(nn.BatchNorm2d, layers.pop(0)), x)
            else:
                x = layer(x)
        return x


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
