"""How many clients fit on a device at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from galafed.loops import Bench, forward
from galafed.stacking.twins import unstackable
from galafed.work import Batch, Fit

USABLE = 0.8
"""Of the memory that is free, so much is planned with; libraries want a share too."""
CPU_ENTRIES = 2**22
"""On a CPU, activations of about so many numbers still fit its caches; more clients at once would be slower."""


def clients_at_once(work: Fit, bench: Bench) -> int:
    """How many clients a fit may advance together on this device."""
    if unstackable(work):
        return 1
    entries = activations(work, bench) * work.batch_size
    if bench.device.type != "cuda":
        return max(1, CPU_ENTRIES // entries)
    kept, moved = _parameters(work, bench)
    element = torch.finfo(bench.products or bench.dtype).bits // 8
    # A parameter has its value, its value in low precision, and two copies that leave; a moving one also a gradient
    # and momentum. An activation is kept for the backward pass and has a gradient.
    size = torch.finfo(bench.dtype).bits // 8
    per_client = 4 * size * kept + 2 * size * moved + 2 * element * entries
    free, _ = torch.cuda.mem_get_info(bench.device)
    reserved = torch.cuda.memory_reserved(bench.device) - torch.cuda.memory_allocated(bench.device)
    return max(1, math.floor(USABLE * (free + reserved) / per_client))


def activations(work: Fit, bench: Bench) -> int:
    """Numbers that the layers put out for one image, on the way to everything a step needs."""
    total = 0

    def count(layer: nn.Module, inputs: object, output: Tensor) -> None:
        nonlocal total
        total += output.numel() // 2

    with torch.device("meta"):
        modules = {name: bench.network.make(name).eval() for name in work.modules}
        side = bench.network.image_size
        images = torch.empty(2, 3, side, side)
    for module in modules.values():
        for layer in module.modules():
            if not layer._modules:
                layer.register_forward_hook(count)
    for step in work.steps:
        forward(modules, step.outputs, Batch(images))
    return max(total, 1)


def _parameters(work: Fit, bench: Bench) -> tuple[int, int]:
    """How many numbers the states of a client have, and how many of them move."""
    with torch.device("meta"):
        sizes = {name: sum(v.numel() for v in bench.network.make(name).state_dict().values()) for name in work.modules}
    moved = {name for step in work.steps for name in step.update}
    return sum(sizes.values()), sum(sizes[name] for name in moved)
