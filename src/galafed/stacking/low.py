"""Layers that compute in low precision: the optimiser keeps a copy of their weights in it up to date.

The backward pass does not form the weights' gradient; it leaves what that is made of in `pending`, and `descend` makes
gradient and step in one pass over the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from galafed.stacking.graphs import background
from galafed.stacking.kernels import conv, conv_gradient, linear
from galafed.stacking.layers import StackedConv2d, StackedLinear
from galafed.work import Sgd


class LowConv2d(StackedConv2d):
    """A convolution whose weights [N, O, I, K, K] lie in memory as its kernels want them, [N, K·K, I, O]."""

    low: Tensor

    def __init__(self, layer: nn.Conv2d, count: int) -> None:
        super().__init__(layer, count)
        self.pending: list[Tensor] = []

    @staticmethod
    def lay(weight: Tensor) -> Tensor:
        """The same weights in the order in memory that the kernels want."""
        return weight.permute(0, 3, 4, 2, 1).contiguous().permute(0, 4, 3, 1, 2)

    def keep(self, low: Tensor) -> None:
        """Take the place of the copy of the weights, laid as they are."""
        self.low = low.permute(0, 3, 4, 2, 1).flatten(1, 2)

    def convolve(self, x: Tensor, *, norm_follows: bool) -> tuple[Tensor, Tensor]:
        """Images [N, B, H, W, I] to [N, B, H, W, O], and the sums for a BatchNorm that follows."""
        y, sums = conv.Convolution.apply(x, self.weight, self.bias, self, norm_follows)  # type: ignore[no-untyped-call]
        return y, sums

    def descend(self, momentum: Tensor, rate: Tensor, sgd: Sgd) -> None:
        """One step of the weights, with the gradient the backward pass left."""
        parts = self.pending[0] if len(self.pending) == 1 else torch.cat(self.pending, dim=1)
        self.pending.clear()
        numbers = {"mu": sgd.momentum, "decay": sgd.weight_decay}
        conv_gradient.descend(parts, cast(Tensor, self.weight).data, momentum, self.low, rate, **numbers)

    def settle(self) -> None:
        """The weights are always up to date."""


class LowLinear(StackedLinear):
    """A fully connected layer. Its pass of gradient and step is bound by memory and convolutions are not, so on a GPU
    it runs in the background until the weights are needed again.
    """

    low: Tensor

    def __init__(self, layer: nn.Linear, count: int) -> None:
        super().__init__(layer, count)
        self.pending: list[tuple[Tensor, Tensor]] = []
        self.unused: torch.cuda.Event | None = None
        """From here on the backward pass needs the weights no more."""
        self._descending: tuple[torch.cuda.Event, Sequence[Tensor]] | None = None

    @staticmethod
    def lay(weight: Tensor) -> Tensor:
        """Weights lie as the kernels want them."""
        return weight

    def keep(self, low: Tensor) -> None:
        """Take the place of the copy of the weights."""
        self.low = low

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x, self.bias)

    def product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x wᵀ + bias."""
        self.settle()
        result: Tensor = linear.Product.apply(x.to(self.low.dtype), self.weight, bias, self)  # type: ignore[no-untyped-call]
        return result

    def descend(self, momentum: Tensor, rate: Tensor, sgd: Sgd) -> None:
        """One step of the weights, with the gradient the backward pass left."""
        inputs, gradients = zip(*self.pending, strict=True)  # one of each for every time the layer was applied
        self.pending.clear()
        weight = cast(Tensor, self.weight).data
        numbers = {"mu": sgd.momentum, "decay": sgd.weight_decay}
        if self.unused is None:
            linear.descend(_joined(inputs), _joined(gradients), weight, momentum, self.low, rate, **numbers)
            return
        side = background(weight.device)
        side.wait_event(self.unused)
        with torch.cuda.stream(side):  # joined here too: the background knows of nothing that came after `unused`
            x, dy = _joined(inputs), _joined(gradients)
            linear.descend(x, dy, weight, momentum, self.low, rate, **numbers)
        # The factors must not be freed before the foreground has waited: their memory would be used again.
        self._descending = (side.record_event(), (*inputs, *gradients, x, dy))

    def settle(self) -> None:
        """Wait until the weights are up to date."""
        if self._descending is not None:
            torch.cuda.current_stream(self.low.device).wait_event(self._descending[0])
            self._descending = None


def _joined(factors: tuple[Tensor, ...]) -> Tensor:
    """Rows [N, B, …] of every application, one after the other."""
    return factors[0] if len(factors) == 1 else torch.cat(factors, dim=1)
