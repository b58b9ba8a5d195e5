"""`digit_cnn` that trains on the softmax of a softmax, as FACT's code does, where the head ends in probabilities."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from galafed.networks.base import networks
from galafed.networks.digit_cnn import DigitCnn


class Probabilities(nn.Module):
    """softmax over classes, the last axis: [..., C] -> [..., C]; in eval mode nothing, for what follows takes one."""

    any_axes = True

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Identity()  # a module for many clients at once is recognised by the layers it is built of

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.logits(x)
        return scores.softmax(dim=-1) if self.training else scores


@networks.register("digit_cnn_softmax")
class DigitCnnSoftmax(DigitCnn):
    """What losses take for logits lies in [0, 1]: cross-entropy ends at 1.461, not at 0, with ten classes.

    Predictions and centroids, as in that code, are by the probabilities themselves.
    """

    summary: ClassVar[str] = "digit_cnn whose losses take the softmax of a softmax, as those of FACT's public code"

    def predictor(self) -> nn.Module:
        head = super().predictor()
        head.add_module("probabilities", Probabilities())
        return head
