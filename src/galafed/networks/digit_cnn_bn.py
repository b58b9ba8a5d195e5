"""`digit_cnn` with BatchNorm on the logits, as the paper's table of layers has it."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from galafed.networks.base import networks
from galafed.networks.digit_cnn import DigitCnn


@networks.register("digit_cnn_bn")
class DigitCnnBn(DigitCnn):
    """FACT's public code makes this layer and never applies it; the paper lists it."""

    summary: ClassVar[str] = "digit_cnn with BatchNorm on the logits, as the paper's table of layers lists it"

    def predictor(self) -> nn.Module:
        head = super().predictor()
        head.add_module("norm3", nn.BatchNorm1d(self.classes))
        return head
