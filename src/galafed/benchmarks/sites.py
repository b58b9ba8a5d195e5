"""The sites of a consortium, each with its own images: the server knows their names and classes, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from galafed.benchmarks.base import Benchmark, Domain, benchmarks
from galafed.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class SitesSettings:
    """What all sites agree on."""

    domains: tuple[str, ...] = ()
    """The names of the sites, the target's among them."""
    classes: tuple[str, ...] = ()
    """The classes in the order of their numbers."""
    image_size: int = 32
    """Every site stretches its images to this many pixels a side."""

    def __post_init__(self) -> None:
        if len(set(self.domains)) < max(len(self.domains), 2):
            raise ConfigError("domains: name at least two sites, each once ('gala federation init' writes them)")
        if len(set(self.classes)) < max(len(self.classes), 2):
            raise ConfigError("classes: name at least two, each once")
        if not 8 <= self.image_size <= 1024:
            raise ConfigError(f"image_size = {self.image_size}: must be from 8 to 1024")


@benchmarks.register("sites")
class Sites(Benchmark):
    """Real sites; needs an engine that has them."""

    title: ClassVar[str] = "the sites of a federation, each with its own images (gala federation init)"
    Settings: ClassVar[type] = SitesSettings
    domains: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    image_size = 0
    default_target = ""
    network = "small_cnn"
    defaults: Mapping[str, Any] = {"rounds": 30, "training.batch_size": 32, "training.lr": 0.05}

    def __init__(self, settings: Any = None) -> None:
        if settings is None:
            raise ConfigError("sites.domains, sites.classes: name the sites and the classes they tell apart")
        super().__init__(settings)
        self.domains, self.classes = settings.domains, settings.classes
        self.image_size = settings.image_size
        self.default_target = settings.domains[-1]

    def load(self, domain: str) -> Domain:
        """Nothing: the images are at the sites."""
        raise DataError(f"the images of {domain!r} are at its site; run it with an engine that has sites")
