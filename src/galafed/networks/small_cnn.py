"""A small network of the same make as the paper's, for `mini` and for tests: seconds on a CPU."""

from __future__ import annotations

from collections import OrderedDict
from typing import ClassVar

from torch import nn

from galafed.networks.base import Network, networks
from galafed.networks.layers import Dropout


@networks.register("small_cnn")
class SmallCnn(Network):
    """G: two 5x5 convolutions of 16 and 32 channels; F: dropout, 64 hidden units, dropout, logits."""

    summary: ClassVar[str] = "two small convolutions and one hidden layer, for `mini`"

    def __init__(self, *, classes: int, image_size: int) -> None:
        super().__init__(classes=classes, image_size=image_size)
        side = (image_size + 1) // 2
        side = (side + 1) // 2
        self.feature_size = 32 * side * side

    def extractor(self) -> nn.Module:
        return nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(3, 16, 5, padding=2),
                norm1=nn.BatchNorm2d(16),
                relu1=nn.ReLU(),
                pool1=nn.MaxPool2d(3, stride=2, padding=1),
                conv2=nn.Conv2d(16, 32, 5, padding=2),
                norm2=nn.BatchNorm2d(32),
                relu2=nn.ReLU(),
                pool2=nn.MaxPool2d(3, stride=2, padding=1),
                flatten=nn.Flatten(),
            )
        )

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
