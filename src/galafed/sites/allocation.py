"""How this process takes memory from the system: what is large is given back the moment it is let go of."""

from __future__ import annotations

import contextlib
import ctypes

LARGE = 2**20
"""Bytes from which on a block is the system's own again as soon as nobody has it."""
_MMAP_THRESHOLD = -3
"""M_MMAP_THRESHOLD of malloc.h."""


def give_back_at_once() -> None:
    """Keep the C library from collecting freed tensors in a heap with holes, which grew from round to round.

    By itself glibc raises the size from which on it maps blocks up to 32 MB, that of most tensors there are.
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, LARGE)
