"""A small network of the same make as the paper's, for `mini` and for tests: seconds on a CPU."""

from __future__ import annotations

from collections import OrderedDict
from typing import ClassVar

from torch import nn

from galafed.networks.base import Network, networks
from galafed.networks.layers import Dropout, convolutions, halved_twice


@networks.register("small_cnn")
class SmallCnn(Network):
    """G: two 5x5 convolutions of 16 and 32 channels; F: dropout, 64 hidden units, dropout, logits."""

    summary: ClassVar[str] = "two small convolutions and one hidden layer, for `mini`"

    def __init__(self, *, classes: int, image_size: int) -> None:
        super().__init__(classes=classes, image_size=image_size)
        self.feature_size = 32 * halved_twice(image_size) ** 2

    def extractor(self) -> nn.Module:
        return convolutions(16, 32)

    def predictor(self) -> nn.Module:
        return nn.Sequential(
            OrderedDict(
                drop1=Dropout(0.5, layer=1),
                full1=nn.Linear(self.feature_size, 64),
                norm1=nn.BatchNorm1d(64),
                relu1=nn.ReLU(),
                drop2=Dropout(0.5, layer=2),
                full2=nn.Linear(64, self.classes),
            )
        )
