"""How a kind of part is found and made."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from galafed.registry import Registry

if TYPE_CHECKING:
    from torch import nn

    from galafed.networks.base import Network


class PartFactory(Protocol):
    """A module class: made from the network it belongs to and the part's full name, such as "discriminator:svhn"."""

    name: ClassVar[str]

    def __call__(self, network: Network, part: str) -> nn.Module: ...


parts: Registry[PartFactory] = Registry("part", "galafed.networks.parts")
