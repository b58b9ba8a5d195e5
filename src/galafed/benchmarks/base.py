"""What a benchmark is: a set of domains, each with labelled train and test images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from galafed.benchmarks.store import ArrayStore


@dataclass(frozen=True, kw_only=True)
class Split:
    """Images uint8 [n, height, width, 3] with their class numbers int64 [n]."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True)
class Domain:
    """One data distribution with a name; `note` is shown wherever the domain is (for example "stand-in")."""

    name: str
    train: Split
    test: Split
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class NoSettings:
    """Nothing to set."""


Progress = Callable[[str, int, int], None]
"""Told what is being made, how much of it is done, and how much there is."""


class Benchmark(ABC):
    """A named set of domains. Making one and reading its attributes costs nothing; `load` may build or read files.

    The attributes below may be set on the class or, where they depend on settings or files, on the instance.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    family: ClassVar[str] = ""
    """Under which name an algorithm's published hyper-parameters are looked up: "digits", "office"."""
    Settings: ClassVar[type] = NoSettings
    """A frozen dataclass; in TOML the table with the benchmark's name."""

    domains: tuple[str, ...]
    classes: tuple[str, ...]
    image_size: int
    default_target: str
    network: str
    defaults: Mapping[str, Any] = {}
    """Recommended settings, by dotted configuration key; what the user sets wins."""
    suited: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """More of them for single networks, by the network's name."""

    def __init__(self, settings: Any = None) -> None:
        self.settings = self.Settings() if settings is None else settings

    @abstractmethod
    def load(self, domain: str) -> Domain:
        """The images of a domain."""

    def notes(self) -> Mapping[str, str]:
        """What has to be said wherever a domain is shown, for example "stand-in"; found out without loading images."""
        return {}

    def missing(self) -> Mapping[str, str]:
        """The domains whose files are not there, each with where to get them and where to put them."""
        return {}

    def facts(self, domain: str) -> dict[str, Any]:
        """What is known of a domain beyond its images: `expected` counts, `test_is_train`, `leakage`, its origin."""
        return {}

    def bases(self, domain: str) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """The numbers of the base images behind the train and the test images, where the benchmark keeps them."""
        return None

    def store(self, domain: str) -> ArrayStore | None:
        """Where a prepared domain is kept, of a benchmark that keeps any."""
        return None

    def prepare(self, progress: Progress) -> None:
        """Make everything `load` needs, once, with progress; does nothing where it is there already."""
        for count, domain in enumerate(self.domains):
            progress(domain, count, len(self.domains))
            self.load(domain)


benchmarks: Registry[type[Benchmark]] = Registry("benchmark", "galafed.benchmarks")
