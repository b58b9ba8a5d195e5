"""Twins of layers for n clients at once: parameters [n, ...], images [n, B, C, H, W], features [n, B, D].

Images keep the channels last in memory, as the data has them. A twin has the names of the layer it stands for, so
the stacked state of n clients has the keys of one client's state and one axis more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from galafed.networks.layers import Dropout, keep_mask


def each_client(function: Callable[..., Tensor], x: Tensor, *stacked: Tensor | None) -> Tensor:
    """function(x_k, …) for every client k; the results [n, B, …] keep channels last."""
    if len(x) == 1:  # no copy, neither forward nor backward
        return function(x.squeeze(0), *(None if value is None else value.squeeze(0) for value in stacked)).unsqueeze(0)
    # Apart by unbind: the gradient of x[k] would be a tensor as large as x, of zeros but for k.
    own = [[None] * len(x) if value is None else value.unbind() for value in stacked]
    results = [function(*each) for each in zip(x.unbind(), *own, strict=True)]
    if results[0].dim() != 4:
        return torch.stack(results)
    return torch.stack([y.permute(0, 2, 3, 1) for y in results]).permute(0, 1, 4, 2, 3)


MANY = 2**22
"""Of more numbers than this a client's own operation is worth its launch, and takes less memory."""


class StackedConv2d(nn.Module):
    """y_k = w_k ∗ x_k + b_k."""

    def __init__(self, layer: nn.Conv2d, count: int) -> None:
        super().__init__()
        if layer.padding_mode != "zeros":
            raise NotImplementedError(f"padding_mode={layer.padding_mode!r}")
        self.weight = stacked(layer.weight, count)
        self.bias = None if layer.bias is None else stacked(layer.bias, count)
        self.layer = _Settings(layer)

    def forward(self, x: Tensor) -> Tensor:
        one = cast(nn.Conv2d, self.layer.module)

        def convolve(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
            return functional.conv2d(x, weight, bias, one.stride, one.padding, one.dilation, one.groups)

        return each_client(convolve, x, self.weight, self.bias)


class StackedLinear(nn.Module):
    """y_k = x_k w_kᵀ + b_k, as one batched product."""

    weight: nn.Parameter
    bias: nn.Parameter | None

    def __init__(self, layer: nn.Linear, count: int) -> None:
        super().__init__()
        self.weight = stacked(layer.weight, count)
        self.bias = None if layer.bias is None else stacked(layer.bias, count)

    def forward(self, x: Tensor) -> Tensor:
        if self.bias is None:
            return torch.bmm(x, self.weight.mT)
        return torch.baddbmm(self.bias.unsqueeze(1), x, self.weight.mT)


class StackedBatchNorm(nn.Module):
    """BatchNorm over each client's own batch, with each client's own running statistics."""

    weight: nn.Parameter
    bias: nn.Parameter
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, layer: nn.BatchNorm1d | nn.BatchNorm2d, count: int) -> None:
        super().__init__()
        if not (layer.affine and layer.track_running_stats) or layer.momentum is None:
            raise NotImplementedError("a BatchNorm without parameters, statistics or momentum")
        self.weight = stacked(layer.weight, count)
        self.bias = stacked(layer.bias, count)
        for name, value in layer.named_buffers():
            self.register_buffer(name, value.new_empty(count, *value.shape))
        self.eps = layer.eps
        self.momentum = layer.momentum

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.num_batches_tracked += 1

        def normalise(x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            return functional.batch_norm(x, mean, variance, weight, bias, self.training, self.momentum, self.eps)

        if x.shape[0] == 1 or x.device.type == "cpu" or x[0].numel() > MANY:
            return each_client(normalise, x, self.running_mean, self.running_var, self.weight, self.bias)
        return self._at_once(x)

    def _at_once(self, x: Tensor) -> Tensor:
        """The same with few operations for many clients, where the launch of one costs more than its work."""
        over = (1, 3, 4) if x.dim() == 5 else (1,)
        shape = (x.shape[0], 1, -1, 1, 1) if x.dim() == 5 else (x.shape[0], 1, -1)
        exact = x.float() if x.dtype == torch.bfloat16 else x
        if self.training:
            variance, mean = torch.var_mean(exact, dim=over, correction=0)
            with torch.no_grad():
                count = x.numel() // (x.shape[0] * mean.shape[1])
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (count / (count - 1)), self.momentum)
        else:
            variance, mean = self.running_var, self.running_mean
        scale = self.weight * (variance + self.eps).rsqrt()
        shift = self.bias - mean * scale
        return (exact * scale.view(shape) + shift.view(shape)).to(x.dtype)


class StackedFixedBatchNorm(StackedBatchNorm):
    """BatchNorm that keeps each client's running statistics, in training too."""

    def __init__(self, layer: nn.BatchNorm2d, count: int) -> None:
        super().__init__(layer, count)
        self.eval()

    def train(self, mode: bool = True) -> StackedFixedBatchNorm:
        return super().train(False)


class StackedDropout(Dropout):
    """Dropout with each client's own mask, the one its own layer would draw; the key is one of each client [n]."""

    def __init__(self, layer: Dropout, count: int) -> None:
        super().__init__(layer.p, layer=layer.layer)
        self.register_buffer("key", torch.zeros(count, dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        keep = keep_mask(self.key.view(-1, *[1] * (x.dim() - 1)), self.layer, self.p, x.shape[1:], x.device)
        return x * keep.to(x.dtype) * (1 / (1 - self.p))


class StackedConstant(nn.Module):
    """Whatever is put in, what each client keeps comes out: the twin of a layer that is one buffer."""

    def __init__(self, layer: nn.Module, count: int) -> None:
        super().__init__()
        ((self._name, value),) = layer.named_buffers()
        self.register_buffer(self._name, value.new_empty(count, *value.shape))

    def forward(self, x: Tensor) -> Tensor:
        # A copy: what is kept may be another before the gradients are computed.
        return self.get_buffer(self._name).clone()


class PerImage(nn.Module):
    """A layer without parameters that treats every image alike: clients and images are one axis to it."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = _Settings(layer)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer.module(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        return result


class StackedFlatten(nn.Module):
    """Images [n, B, C, H, W] -> features [n, B, C·H·W]."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2)


def stacked(value: Tensor, count: int) -> nn.Parameter:
    """A parameter [count, …] for one of shape […]."""
    return nn.Parameter(value.new_empty(count, *value.shape))


class _Settings:
    """Keeps a layer for its settings, hidden from the module tree: its own parameters are nobody's."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
