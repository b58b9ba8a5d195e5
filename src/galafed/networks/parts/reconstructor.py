"""One half of FADA's reconstructor: the image is the sum of what either kind of features tells of it."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from torch import nn

from galafed.networks.parts.base import parts
from galafed.networks.parts.disentangler import SPECIFIC_SIZE

if TYPE_CHECKING:
    from galafed.networks.base import Network

THUMBNAIL = 8
WIDTH = 128


@parts.register("reconstructor")
class Reconstructor(nn.Sequential):
    """ "reconstructor:features" from features [n, d], "reconstructor:specific" from [n, 64]; both to [n, 3·8·8]."""

    def __init__(self, network: Network, part: str) -> None:
        inputs = network.feature_size if part.split(":")[1] == "features" else SPECIFIC_SIZE
        outputs = 3 * THUMBNAIL**2
        super().__init__(OrderedDict(full1=nn.Linear(inputs, WIDTH), relu1=nn.ReLU(), full2=nn.Linear(WIDTH, outputs)))
