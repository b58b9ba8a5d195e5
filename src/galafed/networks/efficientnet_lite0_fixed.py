"""`efficientnet_lite0` whose BatchNorm keeps the statistics of ImageNet, for domains too small to have their own."""

from __future__ import annotations

from typing import ClassVar

from galafed.networks.base import networks
from galafed.networks.efficientnet_lite0 import EfficientNetLite0
from galafed.networks.layers import FixedBatchNorm2d


@networks.register("efficientnet_lite0_fixed")
class EfficientNetLite0Fixed(EfficientNetLite0):
    """With statistics of batches, regressions on its features lose six points on Office (`benchmarks/probe.py`)."""

    summary: ClassVar[str] = "efficientnet_lite0 with the BatchNorm statistics of ImageNet, in training too"
    norm = FixedBatchNorm2d
