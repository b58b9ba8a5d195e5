"""How an engine is found and made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Protocol

from galafed.federation import Engine
from galafed.registry import Registry

if TYPE_CHECKING:
    from galafed.config import Run
    from galafed.loops import Bench, Images


class EngineFactory(Protocol):
    """An engine class: made from a bench, the data of each client by name, the run's seed and its configuration."""

    name: ClassVar[str]
    summary: ClassVar[str]
    federated: ClassVar[bool]

    def __call__(self, *, bench: Bench, data: Mapping[str, Images], seed: int, config: Run | None = None) -> Engine: ...


engines: Registry[EngineFactory] = Registry("engine", "galafed.engines")
