"""A domain discriminator: tells a source's features from the target's."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from torch import nn

from galafed.networks.parts.base import parts

if TYPE_CHECKING:
    from galafed.networks.base import Network

HIDDEN = 500


@parts.register("discriminator")
class Discriminator(nn.Sequential):
    """Features [n, d] -> 500 -> 500 -> logit [n, 1], large for "source": DSBN's for digits, taken for every method."""

    def __init__(self, network: Network, part: str) -> None:
        super().__init__(
            OrderedDict(
                full1=nn.Linear(network.feature_size, HIDDEN),
                relu1=nn.ReLU(),
                full2=nn.Linear(HIDDEN, HIDDEN),
                relu2=nn.ReLU(),
                full3=nn.Linear(HIDDEN, 1),
            )
        )
