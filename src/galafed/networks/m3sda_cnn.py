"""The network of M³SDA and KD3A for digits: three convolutions and two full layers in G, a single linear layer in F.

Peng et al., Moment Matching for Multi-Source Domain Adaptation, ICCV 2019; the same one is used by KD3A, FADA and CMSS.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import ClassVar

from torch import nn

from galafed.networks.base import Network, networks
from galafed.networks.layers import Dropout, halved_twice


@networks.register("m3sda_cnn")
class M3sdaCnn(Network):
    """G: conv 64, 64, 128, FC 3072, FC 2048, 127 MB at 32x32; F: 0.08 MB. Nearly the opposite of `digit_cnn`."""

    summary: ClassVar[str] = "M³SDA's CNN for 32x32 digits, a linear predictor, 31.8 M parameters"

    def __init__(self, *, classes: int, image_size: int) -> None:
        super().__init__(classes=classes, image_size=image_size)
        self.feature_size = 2048

    def extractor(self) -> nn.Module:
        return nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(3, 64, 5, padding=2),
                norm1=nn.BatchNorm2d(64),
                relu1=nn.ReLU(),
                pool1=nn.MaxPool2d(3, stride=2, padding=1),
                conv2=nn.Conv2d(64, 64, 5, padding=2),
                norm2=nn.BatchNorm2d(64),
                relu2=nn.ReLU(),
                pool2=nn.MaxPool2d(3, stride=2, padding=1),
                conv3=nn.Conv2d(64, 128, 5, padding=2),
                norm3=nn.BatchNorm2d(128),
                relu3=nn.ReLU(),
                flatten=nn.Flatten(),
                full1=nn.Linear(128 * halved_twice(self.image_size) ** 2, 3072),
                norm4=nn.BatchNorm1d(3072),
                relu4=nn.ReLU(),
                drop1=Dropout(0.5, layer=1),
                full2=nn.Linear(3072, 2048),
                norm5=nn.BatchNorm1d(2048),
                relu5=nn.ReLU(),
            )
        )

    def predictor(self) -> nn.Module:
        return nn.Sequential(OrderedDict(full1=nn.Linear(2048, self.classes)))
