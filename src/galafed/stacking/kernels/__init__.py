"""Triton kernels for the layers that cost the most, each with the plain layer it must equal in `stacking.layers`."""

from __future__ import annotations

import importlib.util
from functools import lru_cache

import torch

from galafed.loops import Bench

LOW = torch.bfloat16
"""The precision of the kernels' products."""


FEW = 16
"""Fewer input channels than this are too few for a product of their own at every tap of a convolution."""


def usable(bench: Bench) -> bool:
    """Kernels are written for products in bfloat16 on a GPU; everywhere else plain PyTorch does the work."""
    low = bench.products is LOW and bench.dtype is torch.float32
    return bench.compiles and low and bench.device.type == "cuda" and importlib.util.find_spec("triton") is not None


@lru_cache(maxsize=256)
def zeros(n: int, columns: int, device: torch.device) -> torch.Tensor:
    """The gradient [n, columns] of what has none; made once, and never written to."""
    return torch.zeros(n, columns, device=device)


@lru_cache(maxsize=256)
def parts(blocks: int, per_processor: int, device: torch.device, most: int, cost: float) -> int:
    """Into how many parts each of `blocks` sums should be cut so that hardly a processor waits for the last ones.

    A processor works on `per_processor` parts at a time; writing a part and adding it to the others costs a share
    `cost` of the sum itself.
    """
    slots = per_processor * _processors(device)

    def speed(count: int) -> float:
        busy = blocks * count / (slots * -(-blocks * count // slots))
        return busy / (1 + cost * count)

    return max(range(1, most + 1), key=speed)


def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2
