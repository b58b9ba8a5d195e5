"""Modules imported at first use: torch takes a second or two to load, and a typo in a setting should not wait for it.

Everything that a configuration is checked with (the algorithms and what they import) takes torch from here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    import torch
else:

    class _LazyModule:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(importlib.import_module(self._name), attribute)

    torch = _LazyModule("torch")
    numpy = _LazyModule("numpy")

__all__ = ["numpy", "torch"]
