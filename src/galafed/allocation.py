"""What the C library does with memory that was freed: glibc's own habits suit neither many steps nor a long run."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

TRIM, MAP = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of <malloc.h>."""


def keep_for_the_next_step() -> bool:
    """Keep what a step frees for the next step; for workers that are threads of one process.

    A thread's own heap gives its end back to the system whenever that is free, which it is after every step. The next
    step then has to fault every page of its activations in again, a thousand for one layer of a batch. So 256 MB
    may be free at the end of each. One heap for all would hand memory that is in one core's cache to another core.
    """
    return _told({MAP: 2**25, TRIM: 2**28})


def give_back_at_once() -> bool:
    """Give large blocks back the moment they are freed; for a server, whose models come and go.

    By itself glibc soon keeps blocks of up to 32 MB, that of most tensors there are, in a heap with holes, which grew
    from round to round.
    """
    return _told({MAP: 2**20})


def _told(settings: Mapping[int, int]) -> bool:
    """Whether the C library took all settings; another one than glibc has habits of its own."""
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    taken = [tell(name, value) for name, value in settings.items()]
    return all(taken)
