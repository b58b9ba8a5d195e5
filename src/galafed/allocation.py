"""What the C library does with memory that was freed: glibc's own habits suit neither many steps nor a long run."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

TRIM, MAP, MAPS = -1, -3, -4
"""M_TRIM_THRESHOLD, M_MMAP_THRESHOLD and M_MMAP_MAX of <malloc.h>."""
NEVER, NO_BLOCK, ANY_BLOCK = -1, 0, 2**16
"""A threshold that nothing passes; how many blocks may be mapped one by one: none, or as many as glibc allows."""

PLENTY = 2**34
"""Bytes of memory."""


def keep_for_the_next_step(workers: int) -> None:
    """Keep what a step frees for the next step, which would fault every page of its activations in again.

    One worker keeps all of it: activations of photographs are blocks of 100 MB, each of which glibc asks of the system,
    which has to clear it, and gives back within the step. A heap with holes takes up to a third more, so a machine with
    little memory is left as it is. Where several workers are threads of one process each has a heap of its own, of
    which 256 MB may be free at the end: one heap for all would hand memory that is in one core's cache to another core.
    """
    if workers > 1:
        _tell({MAPS: ANY_BLOCK, MAP: 2**25, TRIM: 2**28})
    elif _memory() > PLENTY:
        _tell({MAPS: NO_BLOCK, TRIM: NEVER})


def give_back_at_once() -> None:
    """Give large blocks back the moment they are freed; for a server, whose models come and go.

    By itself glibc soon keeps blocks of up to 32 MB, that of most tensors there are, in a heap with holes, which grew
    from round to round.
    """
    _tell({MAPS: ANY_BLOCK, MAP: 2**20, TRIM: 2**20})


def give_back_what_is_free() -> None:
    """At the end of a run: its steps are over, and the process may live on."""
    if libc := _glibc():
        libc.malloc_trim(0)


def _tell(settings: Mapping[int, int]) -> None:
    if libc := _glibc():
        for name, value in settings.items():
            libc.mallopt(name, value)


def _memory() -> int:
    """Bytes this machine has; none where it does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 0


def _glibc() -> ctypes.CDLL | None:
    """The C library if it is glibc; another one has habits of its own, and keeps them."""
    try:
        libc = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
