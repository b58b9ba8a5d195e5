"""How many clients fit on a device at once."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor, nn

from galafed.loops import Bench, forward
from galafed.networks.base import Network
from galafed.networks.layers import materialised
from galafed.stacking.twins import separate
from galafed.work import Batch, Fit, Path

USABLE = 0.8
"""Of the memory that is free, so much is planned with; libraries want a share too."""
OURS = 0.95
"""Of a process's share of a GPU, so much is torch's; CUDA itself takes half a gigabyte or more for every process."""
CPU_ENTRIES = 2**22
"""On a CPU, activations of about so many numbers still fit its caches; more clients at once would be slower."""

GPU_ENTRIES = 2**32
MOST_IMAGES = 8192
"""A GPU that passes over more numbers of all layers, or more images, at once takes memory and gains no time."""

FEWEST_IMAGES = 64
"""For fewer images than this a processor would read the weights more often than it pays."""


def clients_at_once(work: Fit, bench: Bench) -> int:
    """How many clients a fit may advance together on this device."""
    if separate(work):
        return 1
    entries = activations(_paths(work), bench.network) * work.batch_size
    if bench.device.type != "cuda":
        return max(1, CPU_ENTRIES // entries)
    sizes = {name: _size(name, bench.network) for name in work.modules}
    kept, moved = sum(sizes.values()), sum(sizes[name] for name in {n for step in work.steps for n in step.update})
    element = torch.finfo(bench.products or bench.dtype).bits // 8
    # A parameter has its value, its value in low precision, and two copies that leave; a moving one also a gradient
    # and momentum. An activation is kept for the backward pass and has a gradient.
    size = torch.finfo(bench.dtype).bits // 8
    per_client = 4 * size * kept + 2 * size * moved + 2 * element * entries
    return max(1, math.floor(USABLE * available(bench.device) / per_client))


def available(device: torch.device) -> float:
    """Bytes a run may still take on a GPU: what is free there, and of that no more than its share."""
    free, total = torch.cuda.mem_get_info(device)
    reserved, used = torch.cuda.memory_reserved(device), torch.cuda.memory_allocated(device)
    share = torch.cuda.get_per_process_memory_fraction(device.index) * total
    return min(free, share - reserved) + reserved - used


def hold_to(share: float) -> None:
    """Keep this process within a share of every GPU's memory, so that runs beside it have theirs."""
    for device in range(torch.cuda.device_count()):
        torch.cuda.set_per_process_memory_fraction(OURS * share, device)


def images_at_best(network: Network, device: torch.device) -> int:
    """Images a device passes over at once: for a processor what stays in its caches; enough to read the weights for."""
    entries = GPU_ENTRIES if device.type == "cuda" else CPU_ENTRIES
    return min(MOST_IMAGES, max(FEWEST_IMAGES, entries // activations((("extractor", "predictor"),), network)))


@lru_cache(maxsize=64)
def activations(paths: tuple[Path, ...], network: Network) -> int:
    """Numbers that the layers put out for one image, along all paths."""
    total = 0

    def count(layer: nn.Module, inputs: object, output: Tensor) -> None:
        nonlocal total
        total += output.numel() // 2

    with torch.device("meta"):
        modules = {name: network.make(name).eval() for path in paths for name in path}
    # Two images are passed through for their shapes alone. On "meta" nothing would be computed, but more be loaded.
    processor, dtype = torch.device("cpu"), torch.float32
    for module in modules.values():
        materialised(module, processor, dtype)
        for layer in module.modules():
            if not layer._modules:
                layer.register_forward_hook(count)
    images = torch.zeros(2, 3, network.image_size, network.image_size)
    with torch.no_grad():
        forward(modules, dict(enumerate(paths)), Batch(images))  # type: ignore[arg-type]
    return max(total, 1)


def _paths(work: Fit) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(path for step in work.steps for path in step.outputs.values()))


@lru_cache(maxsize=64)
def _size(part: str, network: Network) -> int:
    """How many numbers the state of a part has."""
    return sum(math.prod(shape) for shape, _ in network.schema(part).values())
