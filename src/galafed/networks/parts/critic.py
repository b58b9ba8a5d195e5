"""One half of FADA's critic of mutual information: T(a, b) = φ(a)·ψ(b)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from torch import nn

from galafed.networks.parts.base import parts
from galafed.networks.parts.disentangler import SPECIFIC_SIZE

if TYPE_CHECKING:
    from galafed.networks.base import Network

WIDTH = 64


@parts.register("critic")
class Critic(nn.Sequential):
    """ "critic:features" is φ of features [n, d], "critic:specific" ψ of domain-specific ones [n, 64]; both [n, 64]."""

    def __init__(self, network: Network, part: str) -> None:
        inputs = network.feature_size if part.split(":")[1] == "features" else SPECIFIC_SIZE
        super().__init__(OrderedDict(full1=nn.Linear(inputs, WIDTH), relu1=nn.ReLU(), full2=nn.Linear(WIDTH, WIDTH)))
