"""The BatchNorm layers of another part, so that a domain can have its own (DSBN)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from galafed.networks.parts.base import parts

if TYPE_CHECKING:
    from galafed.networks.base import Network


@parts.register("norms")
class Norms(nn.Module):
    """ "norms:extractor:svhn": the extractor's BatchNorm layers and nothing else, under the names they have there."""

    any_axes: ClassVar[bool] = True

    def __init__(self, network: Network, part: str) -> None:
        super().__init__()
        for name, child in network.make(part.partition(":")[2]).named_children():
            self.add_module(name, _stripped(child))


def _stripped(module: nn.Module) -> nn.Module:
    """A module without any layer that has a state, but for BatchNorm."""
    if isinstance(module, _BatchNorm):
        return module
    kept = nn.Module()
    for name, child in module.named_children():
        kept.add_module(name, _stripped(child))
    return kept
