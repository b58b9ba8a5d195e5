"""From a module to its twin for n clients: layers are replaced, whatever is built of them stays as it is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from torch import nn

from galafed.networks.layers import Dropout, FixedBatchNorm2d
from galafed.networks.parts.bank import Bank
from galafed.networks.parts.centroids import Centroids
from galafed.stacking.layers import (
    PerImage,
    StackedBatchNorm,
    StackedConstant,
    StackedConv2d,
    StackedDropout,
    StackedFixedBatchNorm,
    StackedFlatten,
    StackedLinear,
)
from galafed.stacking.pooling import QuickMaxPool
from galafed.work import Fit


class CannotStack(Exception):
    """A layer without a twin; the message names it."""


Twin = Callable[[Any, int], nn.Module]

TWINS: dict[type[nn.Module], Twin] = {
    nn.Conv2d: StackedConv2d,
    nn.Linear: StackedLinear,
    nn.BatchNorm1d: StackedBatchNorm,
    nn.BatchNorm2d: StackedBatchNorm,
    FixedBatchNorm2d: StackedFixedBatchNorm,
    Dropout: StackedDropout,
    **dict.fromkeys((Bank, Centroids), StackedConstant),
    nn.Flatten: lambda layer, count: StackedFlatten(),
    nn.MaxPool2d: lambda layer, count: PerImage(QuickMaxPool(layer)),
    **dict.fromkeys((nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.ZeroPad2d), lambda layer, count: PerImage(layer)),
    **dict.fromkeys((nn.ReLU, nn.ReLU6, nn.Identity, nn.Sigmoid, nn.Tanh), lambda layer, count: layer),
}


def twin(module: nn.Module, count: int, better: Mapping[type[nn.Module], Twin] = MappingProxyType({})) -> nn.Module:
    """The module for `count` clients, with the same names and one axis more in every tensor.

    `better` tells of layers that have a better twin than the plain one. A module with a forward of its own must say
    `any_axes = True`, which promises that it combines its layers by arithmetic alone and names no axis.
    """
    kind = kind_of(module)
    if make := better.get(kind) or TWINS.get(kind):
        try:
            return make(module, count)
        except NotImplementedError as error:
            raise CannotStack(f"{type(module).__name__} with {error}") from None
    # A plain module only holds others, under their names.
    combines = kind in (nn.Sequential, nn.Module) or getattr(module, "any_axes", False)
    if not combines or module._parameters or module._buffers:
        raise CannotStack(type(module).__name__)
    stacked = copy.copy(module)
    children = list(module.named_children())
    if kind is nn.Sequential:
        children = pool_first(children)
    stacked._modules = {name: twin(child, count, better) for name, child in children}
    return stacked


def kind_of(module: nn.Module) -> type[nn.Module]:
    """The layer a module is: of a class that only says how such a layer is made, that layer."""
    for kind in type(module).__mro__:
        if kind in TWINS or kind is nn.Sequential:
            return kind
        if "forward" in vars(kind):
            break
    return type(module)


def pool_first(children: list[tuple[str, nn.Module]]) -> list[tuple[str, nn.Module]]:
    """max-pool before ReLU: the same values and gradients, and ReLU has a quarter of the work."""
    for place in range(len(children) - 1):
        if type(children[place][1]) is nn.ReLU and type(children[place + 1][1]) is nn.MaxPool2d:
            children[place], children[place + 1] = children[place + 1], children[place]
    return children


def separate(work: Fit) -> bool:
    """Whether each client takes its steps by itself: it holds several domains, or its modules remember."""
    return work.streams != ("",) or any(step.remember for step in work.steps)
