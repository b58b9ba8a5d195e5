"""The paper's network for digits: two convolutions and a predictor of three fully connected layers (its Table 6)."""

from __future__ import annotations

from collections import OrderedDict
from typing import ClassVar

from torch import nn

from galafed.networks.base import Network, networks
from galafed.networks.layers import Dropout, convolutions, halved_twice


@networks.register("digit_cnn")
class DigitCnn(Network):
    """G: 0.84 MB, features 8192 at 32x32; F: 101.96 MB. FC 3072 belongs to F, as the traffic of the paper shows."""

    summary: ClassVar[str] = "the paper's CNN for 32x32 digits, 25.7 M parameters"

    def __init__(self, *, classes: int, image_size: int) -> None:
        super().__init__(classes=classes, image_size=image_size)
        self.feature_size = 128 * halved_twice(image_size) ** 2

    def extractor(self) -> nn.Module:
        return convolutions(64, 128)

    def predictor(self) -> nn.Module:
        return nn.Sequential(
            OrderedDict(
                drop1=Dropout(0.5, layer=1),
                full1=nn.Linear(self.feature_size, 3072),
                norm1=nn.BatchNorm1d(3072),
                relu1=nn.ReLU(),
                drop2=Dropout(0.5, layer=2),
                full2=nn.Linear(3072, 100),
                norm2=nn.BatchNorm1d(100),
                relu2=nn.ReLU(),
                drop3=Dropout(0.5, layer=3),
                full3=nn.Linear(100, self.classes),
            )
        )
