"""The C library's memory, for workers that are threads of one process."""

from __future__ import annotations

import ctypes
from functools import cache

SETTINGS = {
    -8: 1,  # M_ARENA_MAX: one heap for all threads
    -3: 2**25,  # M_MMAP_THRESHOLD: larger tensors have pages of their own, which go back at once; glibc takes no more
    -1: 2**28,  # M_TRIM_THRESHOLD: so many free bytes at the end of the heap stay with the process
}
"""Parameters of mallopt, as <malloc.h> numbers them."""


@cache
def keep_heap() -> bool:
    """Tell the C library to keep what a step frees for the next step; returns whether it could be told.

    A thread's own heap gives its end back to the system whenever that is free, which it is after every step. The next
    step then has to fault every page of its activations in again, a thousand for one layer of a batch.
    """
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, which has habits of its own
        return False
    taken = [tell(name, value) for name, value in SETTINGS.items()]
    return all(taken)
