"""Layers of our own: a dropout whose mask depends on nothing but a key, BatchNorm that stays, and what CNNs share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

GOLDEN = -1640531527  # 2^32 / golden ratio, as a signed 32-bit number


def mix(x: Tensor) -> Tensor:
    """A 32-bit integer hash, entry by entry: two multiplications between three shifted xors; int32 in, int32 out."""
    x = x ^ ((x >> 16) & 0xFFFF)
    x = x * 0x7FEB352D
    x = x ^ ((x >> 15) & 0x1FFFF)
    x = x * -2073254261  # 0x846CA68B
    return x ^ ((x >> 16) & 0xFFFF)


def words_of(key: Tensor) -> tuple[Tensor, Tensor]:
    """The low and the high 31 bits of an int64 key, as two int32 numbers."""
    return (key & 0x7FFFFFFF).to(torch.int32), ((key >> 31) & 0x7FFFFFFF).to(torch.int32)


def keep_mask(key: Tensor, layer: int, p: float, shape: torch.Size, device: torch.device) -> Tensor:
    """Which entries of a tensor of this shape survive, for one key [] or for keys [n, 1, …] with an axis before it."""
    low, high = words_of(key)
    position = torch.arange(shape.numel(), dtype=torch.int32, device=device).view(shape)
    return (mix(mix(position ^ low) + high + layer * GOLDEN) & 0xFFFFFF) >= int(p * 2**24)


def materialised(module: nn.Module, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """A module made on the device "meta", now with memory for its values, which are yet to be filled in.

    `to_empty` does the same but loads what PyTorch has for symbolic shapes, in the process of every site.
    """

    def room(value: Tensor) -> Tensor:
        return torch.empty(value.shape, dtype=dtype if value.is_floating_point() else value.dtype, device=device)

    filled: nn.Module = module._apply(room)  # type: ignore[no-untyped-call]
    return filled


class Dropout(nn.Module):
    """y = x · m / (1 - p) with m_i = 1 where hash(key, layer, i) says so, which happens with probability 1 - p.

    The mask is a pure function of the key, the layer's number and the position, so any engine, on any device,
    in any order of clients, draws the same one. The key is set before each step with `set_dropout_key`.
    """

    key: Tensor

    def __init__(self, p: float, *, layer: int) -> None:
        super().__init__()
        self.p = p
        self.layer = layer
        self.register_buffer("key", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        keep = keep_mask(self.key, self.layer, self.p, x.shape, x.device)
        return x * keep.to(x.dtype) * (1 / (1 - self.p))

    def extra_repr(self) -> str:
        return f"p={self.p}, layer={self.layer}"


class FixedBatchNorm2d(nn.BatchNorm2d):
    """y = γ (x - μ) / √(σ² + ε) + β with the μ and σ² it came with, in training too; only γ and β learn."""

    running_mean: Tensor
    running_var: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


def convolutions(first: int, second: int) -> nn.Sequential:
    """Two 5x5 convolutions of so many channels, each with BatchNorm, ReLU and a 3x3 max-pool of stride 2; then flat."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(3, first, 5, padding=2),
            norm1=nn.BatchNorm2d(first),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(3, stride=2, padding=1),
            conv2=nn.Conv2d(first, second, 5, padding=2),
            norm2=nn.BatchNorm2d(second),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(3, stride=2, padding=1),
            flatten=nn.Flatten(),
        )
    )


def halved_twice(side: int) -> int:
    """The side of an image after both max-pools of `convolutions`."""
    return ((side + 1) // 2 + 1) // 2


def last_layer(predictor: nn.Module) -> nn.Module:
    """The last layer of a predictor that has weights and, unlike BatchNorm, nothing else; so have its twins."""
    return [layer for layer in predictor.modules() if layer._parameters and not layer._buffers][-1]


def entering(layer: nn.Module, module: nn.Module, x: Tensor) -> Tensor:
    """What enters a layer of a module that is applied to x: [n, d], or [clients, n, d] where x has clients."""
    caught: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda layer, inputs: caught.append(inputs[0]))
    try:
        module(x)
    finally:
        hook.remove()
    found = caught[0]
    return found if found.dim() == x.dim() else found.squeeze(0)  # a module may add an axis for its one client


def dropouts(module: nn.Module) -> Iterator[Dropout]:
    """The dropout layers inside a module."""
    return (layer for layer in module.modules() if isinstance(layer, Dropout))


def set_dropout_key(module: nn.Module, key: int) -> None:
    """Give every dropout layer of a module the key of the coming step."""
    for layer in dropouts(module):
        layer.key.fill_(key)
