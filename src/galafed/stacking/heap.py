"""The C library's memory, for workers that are threads of one process."""

from __future__ import annotations

import ctypes
from functools import cache

TRIM, MAP = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of <malloc.h>."""
KEPT = 2**28
"""Bytes at the end of a heap that stay with the process instead of going back to the system."""
MAPPED = 2**25
"""Tensors of more bytes than this have pages of their own, which go back at once; glibc takes no larger value."""


@cache
def keep_heaps() -> bool:
    """Tell the C library to keep what a step frees for the next step; returns whether it could be told.

    A thread's heap gives its end back to the system whenever that is free, which it is after every step. The next
    step then has to fault every page of its activations in again, a thousand for one layer of a batch.
    """
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, which has habits of its own
        return False
    return bool(tell(MAP, MAPPED)) and bool(tell(TRIM, KEPT))
