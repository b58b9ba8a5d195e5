"""Gradient reversal: what makes an extractor work against the discriminator that follows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from galafed.networks.parts.base import parts

if TYPE_CHECKING:
    from galafed.networks.base import Network


class _Reversal(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient


@parts.register("reverse")
class Reverse(nn.Module):
    """y = x, ∂y/∂x = -1; it has no parameters and no state, and so never travels."""

    any_axes: ClassVar[bool] = True

    def __init__(self, network: Network, part: str) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = _Reversal.apply(x)  # type: ignore[no-untyped-call]
        return result
