"""Python's garbage collector, kept from looking at what is not garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

PYTHONS_OWN = 1000
"""Fewer objects than these nobody has put aside on purpose: Python 3.12 itself starts with some hundreds."""


@contextmanager
def spared() -> Iterator[None]:
    """What is alive now is not looked through again and again: libraries are a million objects and stay anyway.

    What somebody around this has already put aside stays so: to put it back at the end is not for this to do.
    """
    if gc.get_freeze_count() > PYTHONS_OWN:
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def put_off() -> Iterator[None]:
    """Nothing is looked for while something else must not be disturbed."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
