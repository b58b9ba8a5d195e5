"""What a benchmark is: a set of domains, each with labelled train and test images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from galafed.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


class Benchmark(Protocol):
    """A named set of domains; reading the class attributes must cost nothing, `load` may build or read files."""

    name: ClassVar[str]
    title: ClassVar[str]
    domains: ClassVar[tuple[str, ...]]
    classes: ClassVar[tuple[str, ...]]
    image_size: ClassVar[int]
    default_target: ClassVar[str]
    network: ClassVar[str]
    defaults: ClassVar[Mapping[str, Any]]
    """Recommended settings, by dotted configuration key; what the user sets wins."""

    def load(self, domain: str) -> Domain: ...


benchmarks: Registry[type[Benchmark]] = Registry("benchmark", "galafed.benchmarks")
