"""ResNet-50."""

from __future__ import annotations

from typing import ClassVar

from galafed.networks.base import networks
from galafed.networks.residual import Residual


@networks.register("resnet50")
class ResNet50(Residual):
    """25,557,032 parameters in G."""

    summary: ClassVar[str] = "ResNet-50 with public ImageNet weights from a file, for photographs"
    depths = (3, 4, 6, 3)
    checkpoint = "resnet50-0676ba61.pth"
