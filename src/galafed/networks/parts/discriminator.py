"""A domain discriminator: tells a source from the target by an image's features or by its logits."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from torch import nn

from galafed.networks.parts.base import parts

if TYPE_CHECKING:
    from galafed.networks.base import Network

HIDDEN = 500


@parts.register("discriminator")
class Discriminator(nn.Sequential):
    """Features [n, d] -> 500 -> 500 -> logit [n, 1], large for "source"; "discriminator:logits:…" reads logits [n, C].

    DSBN's for digits, taken for every method; narrower for a small network, whose features are few.
    """

    def __init__(self, network: Network, part: str) -> None:
        reads_logits = part.startswith("discriminator:logits:")
        width = min(HIDDEN, network.feature_size // 2)
        super().__init__(
            OrderedDict(
                full1=nn.Linear(network.classes if reads_logits else network.feature_size, width),
                relu1=nn.ReLU(),
                full2=nn.Linear(width, width),
                relu2=nn.ReLU(),
                full3=nn.Linear(width, 1),
            )
        )
