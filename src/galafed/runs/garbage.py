"""Python's garbage collector, kept from looking at what is not garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def spared() -> Iterator[None]:
    """What is alive now is not looked through again and again: libraries are a million objects and stay anyway.

    What somebody around this has already put aside stays so: to put it back at the end is not for this to do.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
