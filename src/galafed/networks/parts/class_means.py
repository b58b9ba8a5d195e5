"""A classifier made of class means: an image belongs to the class whose mean its features point to (SHOT)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from galafed.networks.parts.base import parts

if TYPE_CHECKING:
    from galafed.networks.base import Network


def direction(features: Tensor) -> Tensor:
    """(z, 1) / ‖(z, 1)‖: features [n, d] with a 1 appended, of length 1: [n, d+1]."""
    return nn.functional.normalize(nn.functional.pad(features, (0, 1), value=1.0), dim=1)


@parts.register("class_means")
class ClassMeans(nn.Module):
    """features [n, d] -> cosine to the mean of each class [n, C]; -1, the least, for a class without a mean.

    "class_means:hidden:a" has means of what enters the predictor's last layer, "class_means:features:a" of features.
    """

    means: Tensor
    count: Tensor

    def __init__(self, network: Network, part: str) -> None:
        super().__init__()
        size = network.hidden_size if part.split(":")[1] == "hidden" else network.feature_size
        self.register_buffer("means", torch.zeros(network.classes, size + 1))
        self.register_buffer("count", torch.zeros(network.classes))

    def forward(self, features: Tensor) -> Tensor:
        cosine = direction(features) @ nn.functional.normalize(self.means, dim=1).T
        return torch.where(self.count > 0, cosine, -1.0)
