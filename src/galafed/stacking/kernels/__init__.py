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
