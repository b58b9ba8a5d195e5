"""FADA's branch for what is peculiar to a domain: features of an image that should say nothing about its class."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from torch import nn

from galafed.networks.parts.base import parts

if TYPE_CHECKING:
    from galafed.networks.base import Network

SPECIFIC_SIZE = 64
LARGEST_SIDE = 32
"""Larger images are averaged down first: what is peculiar to a domain shows in a thumbnail."""


@parts.register("disentangler")
class Disentangler(nn.Sequential):
    """Images [n, 3, size, size] -> two convolutions of stride 2 -> domain-specific features [n, 64]."""

    def __init__(self, network: Network, part: str) -> None:
        super().__init__(
            OrderedDict(
                shrink=nn.AdaptiveAvgPool2d(min(network.image_size, LARGEST_SIDE)),
                conv1=nn.Conv2d(3, 8, 5, stride=2, padding=2),
                norm1=nn.BatchNorm2d(8),
                relu1=nn.ReLU(),
                conv2=nn.Conv2d(8, 16, 5, stride=2, padding=2),
                norm2=nn.BatchNorm2d(16),
                relu2=nn.ReLU(),
                pool=nn.AdaptiveAvgPool2d(4),
                flatten=nn.Flatten(),
                full=nn.Linear(16 * 4 * 4, SPECIFIC_SIZE),
            )
        )
