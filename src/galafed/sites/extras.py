"""Optional packages: a missing one is a sentence that says how to get it."""

from __future__ import annotations

import importlib.util

from galafed.errors import ConfigError

PACKAGES = {"nvflare": ("nvflare", "NVIDIA FLARE"), "flower": ("flwr", "Flower")}
"""Of each engine that needs one: the package to import, and its name."""


def require(engine: str) -> None:
    """Refuse an engine whose package is not installed."""
    package, name = PACKAGES[engine]
    if importlib.util.find_spec(package) is None:
        raise ConfigError(f"the engine {engine!r} needs {name}: pip install 'galafed[{engine}]'")
