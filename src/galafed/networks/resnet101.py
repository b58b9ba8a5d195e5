"""ResNet-101, the paper's extractor for Office-Caltech10."""

from __future__ import annotations

from typing import ClassVar

from galafed.networks.base import networks
from galafed.networks.residual import Residual


@networks.register("resnet101")
class ResNet101(Residual):
    """44,549,160 parameters in G."""

    summary: ClassVar[str] = "the paper's ResNet-101 with public ImageNet weights from a file, for photographs"
    depths = (3, 4, 23, 3)
    checkpoint = "resnet101-63fe2227.pth"
