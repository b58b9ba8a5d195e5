"""Features of a source's images, sent to where a discriminator learns (FADA)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from galafed.networks.parts.base import parts

if TYPE_CHECKING:
    from galafed.networks.base import Network


@parts.register("bank")
class Bank(nn.Module):
    """ "bank:256:svhn": whatever is put in, 256 feature vectors [256, d] come out."""

    features: Tensor

    def __init__(self, network: Network, part: str) -> None:
        super().__init__()
        self.register_buffer("features", torch.zeros(int(part.split(":")[1]), network.feature_size))

    def forward(self, x: Tensor) -> Tensor:
        return self.features
