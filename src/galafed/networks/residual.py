"""Residual networks with bottlenecks, with the parameter names that the public weights have."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from galafed.model import State
from galafed.networks.base import Network
from galafed.networks.heads import office_head
from galafed.networks.weights import load, recipe

EXPANSION = 4
IMAGENET_CLASSES = 1000
POOLED = 512 * EXPANSION
"""Features before the layer for these classes."""


@dataclass(frozen=True)
class Variant:
    """What residual networks of the same depths differ in."""

    norm: type[nn.BatchNorm2d] = nn.BatchNorm2d
    epsilon: float = 1e-5
    early: bool = False
    """Whether a bottleneck has its stride in the first convolution, as at first, or in the 3x3, as since."""

    def normed(self, channels: int) -> nn.BatchNorm2d:
        """A layer that normalises so many channels."""
        return self.norm(channels, eps=self.epsilon)


USUAL = Variant()


class Bottleneck(nn.Module):
    """y = ReLU(x' + f(x)) with f: 1x1, 3x3, 1x1 to 4 · width channels, one with the stride; x' = x, or by a 1x1."""

    any_axes: ClassVar[bool] = True

    def __init__(self, channels: int, width: int, stride: int, variant: Variant = USUAL) -> None:
        super().__init__()
        first, second = (stride, 1) if variant.early else (1, stride)
        self.conv1 = nn.Conv2d(channels, width, 1, stride=first, bias=False)
        self.bn1 = variant.normed(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=second, padding=1, bias=False)
        self.bn2 = variant.normed(width)
        self.conv3 = nn.Conv2d(width, EXPANSION * width, 1, bias=False)
        self.bn3 = variant.normed(EXPANSION * width)
        self.relu = nn.ReLU()
        changes = stride != 1 or channels != EXPANSION * width
        self.downsample = _projection(channels, EXPANSION * width, stride, variant) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        result: Tensor = self.relu(y + self.downsample(x))
        return result


class Residual(Network):
    """G: a residual network with its layer for ImageNet's 1000 classes, as in FACT and the paper; F: 500 units."""

    depths: ClassVar[tuple[int, int, int, int]]
    """How many bottlenecks each of the four stages has."""
    checkpoint: ClassVar[str]
    """The public file of these weights, as PyTorch distributes it."""
    mean: ClassVar[float | tuple[float, float, float]] = (0.485, 0.456, 0.406)
    deviation: ClassVar[float | tuple[float, float, float]] = (0.229, 0.224, 0.225)
    feature_size = IMAGENET_CLASSES
    variant: ClassVar[Variant] = USUAL

    def extractor(self) -> nn.Module:
        return nn.Sequential(OrderedDict(**self.trunk(), fc=nn.Linear(POOLED, IMAGENET_CLASSES)))

    def trunk(self) -> OrderedDict[str, nn.Module]:
        """All layers up to the pooled features."""
        stages: OrderedDict[str, nn.Module] = OrderedDict()
        channels = 64
        for number, depth in enumerate(self.depths):
            width = 64 * 2**number
            strides = [1 if number == 0 else 2] + [1] * (depth - 1)
            inputs = [channels] + [EXPANSION * width] * (depth - 1)
            stages[f"layer{number + 1}"] = nn.Sequential(
                *(Bottleneck(c, width, stride, self.variant) for c, stride in zip(inputs, strides, strict=True))
            )
            channels = EXPANSION * width
        return OrderedDict(
            conv1=nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
            bn1=self.variant.normed(64),
            relu=nn.ReLU(),
            maxpool=nn.MaxPool2d(3, stride=2, padding=1),
            **stages,
            avgpool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
        )

    def predictor(self) -> nn.Module:
        return office_head(self.feature_size, self.classes)

    def pretrained(self, part: str) -> State | None:
        if part != "extractor":
            return None
        remedy = (
            f"Get https://huggingface.co/timm/{self.name}.tv_in1k/resolve/main/model.safetensors and save it under "
            f"that name, or get https://download.pytorch.org/models/{self.checkpoint} and convert it:\n"
            f"{recipe(self.name, self.checkpoint)}\n"
            "Or take a network whose weights the package registry has: --set network=efficientnet_lite0"
        )
        return load(self.name, self.schema(part), remedy)


def _projection(channels: int, wider: int, stride: int, variant: Variant) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels, wider, 1, stride=stride, bias=False), variant.normed(wider))
