"""CMSS's curriculum manager: scores how worthwhile it is to align an image's features with the target."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from torch import nn

from galafed.networks.parts.base import parts

if TYPE_CHECKING:
    from galafed.networks.base import Network

HIDDEN = 500


@parts.register("curriculum")
class Curriculum(nn.Sequential):
    """Features [n, d] -> 500 -> score [n, 1]. It starts without an opinion: every score is 0."""

    def __init__(self, network: Network, part: str) -> None:
        width = min(HIDDEN, network.feature_size // 2)
        last = nn.Linear(width, 1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        super().__init__(OrderedDict(full1=nn.Linear(network.feature_size, width), relu1=nn.ReLU(), full2=last))
