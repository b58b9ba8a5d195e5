"""The least a step can cost: operations and bytes, and what this device does of each in a second."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from galafed.loops import forward
from galafed.networks.base import Network
from galafed.reproduction.timing import wait
from galafed.work import Batch, Fit, Sweep

MASTER = 16
"""Bytes a moving parameter costs a step: its value and its momentum, read and written in float32."""
READ = 2
"""Bytes a parameter costs that is only read, in bfloat16."""


@dataclass(frozen=True)
class Ceilings:
    """Measured here and now: operations per second of a large bfloat16 product, bytes per second of a large copy."""

    operations: float
    bytes: float


@dataclass(frozen=True)
class Cost:
    """Operations and bytes that cannot be avoided."""

    operations: float
    bytes: float

    def seconds(self, ceilings: Ceilings) -> float:
        """The floor: the larger of the two times."""
        return max(self.operations / ceilings.operations, self.bytes / ceilings.bytes)


def ceilings(device: torch.device) -> Ceilings:
    """Measure both: medians of ten."""
    cuda = device.type == "cuda"
    side, size = (8192, 2**31) if cuda else (2048, 2**27)
    a = torch.randn(side, side, device=device, dtype=torch.bfloat16 if cuda else torch.float32)
    source = torch.randint(0, 256, (size,), device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    product = _median(lambda: a @ a, device)
    copy = _median(lambda: target.copy_(source), device)
    return Ceilings(2 * side**3 / product, 2 * size / copy)


def step_cost(work: Fit | Sweep, network: Network, images: int) -> Cost:
    """What one batch of so many images costs one client."""
    steps = [(s.outputs, s.update) for s in work.steps] if isinstance(work, Fit) else [(work.outputs, ())]
    operations = moved = read = 0.0
    for outputs, update in steps:
        layers = _layers(network, outputs)
        moving = False
        for module, forward_operations, _ in layers:
            learns = module in update
            # A layer passes a gradient on only where something before it learns.
            operations += forward_operations * (1 + learns + moving)
            moving = moving or learns
        sizes = {module: size for module, _, size in layers}
        moved += sum(size for module, size in sizes.items() if module in update)
        read += sum(size for module, size in sizes.items() if module not in update)
    return Cost(operations * images, MASTER * moved + READ * read)


def _layers(network: Network, outputs: Mapping[str, tuple[str, ...]]) -> list[tuple[str, float, int]]:
    """Of every layer in order: its module, its operations for one image, and the parameters of its module."""
    found: list[tuple[str, float, int]] = []
    with torch.device("meta"):
        modules = {part: network.make(part).eval() for path in outputs.values() for part in path}
        images = torch.empty(1, 3, network.image_size, network.image_size)
    for part, module in modules.items():
        size = sum(p.numel() for p in module.parameters())
        for layer in module.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.register_forward_hook(_counter(found, part, size))
    forward(modules, outputs, Batch(images))
    return found


def _counter(found: list[tuple[str, float, int]], part: str, size: int):  # type: ignore[no-untyped-def]
    def count(layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        found.append((part, 2.0 * output.numel() * layer.weight[0].numel(), size))

    return count


def _median(function, device: torch.device) -> float:  # type: ignore[no-untyped-def]
    times = []
    for number in range(13):
        wait(device)
        started = time.perf_counter()
        function()
        wait(device)
        if number >= 3:
            times.append(time.perf_counter() - started)
    return sorted(times)[len(times) // 2]
