"""FADA's class identifier: tries to read the class from domain-specific features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from galafed.networks.parts.base import parts
from galafed.networks.parts.disentangler import SPECIFIC_SIZE

if TYPE_CHECKING:
    from galafed.networks.base import Network


@parts.register("identifier")
class Identifier(nn.Linear):
    """Domain-specific features [n, 64] -> logits [n, C]."""

    def __init__(self, network: Network, part: str) -> None:
        super().__init__(SPECIFIC_SIZE, network.classes)
