"""Dropout on a processor: the same masks with half the work."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from galafed.networks.layers import GOLDEN, Dropout

WORD = 0xFFFFFFFF
NUMBERS = {torch.float32: np.float32, torch.float64: np.float64}


class QuickDropout(Dropout):
    """`Dropout` with masks by numpy, which shifts unsigned words and writes where it read; same bits."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        keep = quick_mask(int(self.key), self.layer, self.p, x.numel()).reshape(x.shape)
        return x * torch.from_numpy(keep * NUMBERS[x.dtype](1 / (1 - self.p)))


def quick_mask(key: int, layer: int, p: float, count: int) -> np.ndarray:
    """`galafed.networks.layers.keep_mask` of one key for `count` entries, flat."""
    low, high = key & 0x7FFFFFFF, (key >> 31) & 0x7FFFFFFF
    words = _positions(count) ^ np.uint32(low)
    spare = np.empty_like(words)
    _mix(words, spare)
    words += np.uint32((high + layer * GOLDEN) & WORD)
    _mix(words, spare)
    words &= np.uint32(0xFFFFFF)
    return words >= np.uint32(int(p * 2**24))


def _mix(x: np.ndarray, spare: np.ndarray) -> None:
    """`galafed.networks.layers.mix` in place."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        np.right_shift(x, np.uint32(shift), out=spare)
        x ^= spare
        if factor != 1:
            x *= np.uint32(factor)


@lru_cache(maxsize=16)
def _positions(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.uint32)
