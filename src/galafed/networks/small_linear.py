"""`small_cnn` cut at another place: the hidden layer belongs to the extractor, and the predictor is linear."""

from __future__ import annotations

from collections import OrderedDict
from typing import ClassVar

from torch import nn

from galafed.networks.base import Network, networks
from galafed.networks.layers import Dropout, convolutions, halved_twice

HIDDEN = 64


@networks.register("small_linear")
class SmallLinear(Network):
    """G: two 5x5 convolutions of 16 and 32 channels, dropout, 64 hidden units; F: dropout, logits."""

    summary: ClassVar[str] = "the layers of small_cnn with all but the last in G, as M³SDA, KD3A and SHOT cut theirs"
    feature_size = HIDDEN

    def extractor(self) -> nn.Module:
        inside = 32 * halved_twice(self.image_size) ** 2
        return nn.Sequential(
            OrderedDict(
                convolutions=convolutions(16, 32),
                drop1=Dropout(0.5, layer=1),
                full1=nn.Linear(inside, HIDDEN),
                norm1=nn.BatchNorm1d(HIDDEN),
                relu1=nn.ReLU(),
            )
        )

    def predictor(self) -> nn.Module:
        return nn.Sequential(OrderedDict(drop2=Dropout(0.5, layer=2), full2=nn.Linear(HIDDEN, self.classes)))
