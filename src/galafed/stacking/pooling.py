"""Max-pooling on a processor without the places of the maxima, which only a backward pass wants."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn


class QuickMaxPool(nn.MaxPool2d):
    """A 3x3 max-pool of stride 2: first of three rows, then of three columns, whole images at a time; same bits."""

    def __init__(self, layer: nn.MaxPool2d) -> None:
        super().__init__(layer.kernel_size, layer.stride, layer.padding, layer.dilation, ceil_mode=layer.ceil_mode)
        self.usual = (layer.kernel_size, layer.stride, layer.padding, layer.dilation) == (3, 2, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        quick = self.usual and x.device.type == "cpu" and not x.requires_grad and not (x.shape[2] % 2 or x.shape[3] % 2)
        if not quick:
            return cast(Tensor, super().forward(x))
        rows = x.permute(0, 2, 3, 1)  # [B, H, W, C], as images lie in memory
        columns = _halved(rows).transpose(1, 2)
        return _halved(columns).permute(0, 3, 2, 1)


def _halved(x: Tensor) -> Tensor:
    """max(x_{2i-1}, x_{2i}, x_{2i+1}) along axis 1; there is nothing before x_0."""
    y = torch.maximum(x[:, 0::2], x[:, 1::2])
    torch.maximum(y[:, 1:], x[:, 1:-1:2], out=y[:, 1:])
    return y
