"""Optional packages: imported when needed; a missing one is a sentence that says how to install it."""

from __future__ import annotations

import importlib
from typing import Any

from galafed.errors import ConfigError


def need(module: str, *, extra: str) -> Any:
    """An optional module, or an error that names the extra it comes with."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise  # it is there, and something it needs itself is not
        raise ConfigError(f"this needs {module}, which is not installed: pip install 'galafed[{extra}]'") from None
