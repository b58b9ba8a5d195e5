"""Random images in any number of domains: nothing to learn, for measuring the bytes and seconds of a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from galafed.benchmarks.base import Benchmark, Domain, Split, benchmarks
from galafed.bounds import at_least
from galafed.errors import ConfigError
from galafed.lazy import numpy
from galafed.registry import unknown
from galafed.runs.seeding import array_generator

BLOCK = 2**20 - 1
"""Random bytes of a split; an odd number, of which the bytes of an image are no divisor."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How many, and how large."""

    domains: int = 11
    images: int = 32
    """Training images of a domain."""
    tested: int = 32
    """Test images of a domain."""
    size: int = 32
    """Side of an image in pixels."""

    def __post_init__(self) -> None:
        at_least("domains", self.domains, 2)
        at_least("images", self.images, 2)
        at_least("tested", self.tested, 1)
        at_least("size", self.size, 4)


@benchmarks.register("noise")
class Noise(Benchmark):
    """Ten classes that no image tells apart."""

    title: ClassVar[str] = "random images in any number of domains, to measure bytes and seconds"
    Settings = Settings
    domains: tuple[str, ...] = tuple(f"noise{number:02}" for number in range(Settings().domains))
    classes = tuple("0123456789")
    image_size = 32
    default_target = domains[0]
    network = "digit_cnn"
    defaults: Mapping[str, Any] = {"rounds": 3}

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self.domains = tuple(f"noise{number:02}" for number in range(self.settings.domains))
        self.image_size = self.settings.size

    def load(self, domain: str) -> Domain:
        """The images of a domain, drawn from its own random stream."""
        if domain not in self.domains:
            raise ConfigError(unknown("domain", domain, self.domains))
        mine = self.settings
        return Domain(
            name=domain, train=self._draw(domain, "train", mine.images), test=self._draw(domain, "test", mine.tested)
        )

    def _draw(self, domain: str, split: str, count: int) -> Split:
        shape = (count, self.image_size, self.image_size, 3)
        # A block, repeated out of step with the images: a speed measurement asks for gigabytes, and draws take long.
        drawn = numpy.frombuffer(array_generator("noise", domain, split).bytes(BLOCK), dtype=numpy.uint8)
        images = numpy.resize(drawn, shape)
        return Split(images=images, labels=numpy.arange(count, dtype=numpy.int64) % len(self.classes))
