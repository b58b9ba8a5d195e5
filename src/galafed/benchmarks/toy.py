"""A tiny synthetic benchmark with shifted domains: milliseconds a round, for tests and for trying out a new method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.benchmarks.base import Benchmark, Domain, Split, benchmarks
from galafed.errors import ConfigError
from galafed.lazy import numpy
from galafed.registry import unknown
from galafed.runs.seeding import array_generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIZE = 8

SHIFTS: Mapping[str, tuple[float, float, float]] = {
    "bright": (200.0, 40.0, 10.0),
    "dark": (110.0, 10.0, 10.0),
    "faint": (150.0, 90.0, 10.0),
    "inverted": (30.0, 200.0, 15.0),
    "noisy": (190.0, 50.0, 45.0),
}
"""Of each domain: level of the stripes, level of the ground, standard deviation of the noise."""


@benchmarks.register("toy")
class Toy(Benchmark):
    """Three kinds of stripes, 8x8 pixels, in five lights."""

    title: ClassVar[str] = "synthetic stripes in five lights, for tests"
    domains = tuple(SHIFTS)
    classes = ("horizontal", "vertical", "diagonal")
    image_size = SIZE
    default_target = "noisy"
    network = "small_cnn"
    defaults: Mapping[str, Any] = {"rounds": 3, "training.batch_size": 16, "training.lr": 0.02}

    def load(self, domain: str) -> Domain:
        """The images of a domain, drawn from its own random stream."""
        if domain not in SHIFTS:
            raise ConfigError(unknown("domain", domain, self.domains))
        return Domain(name=domain, train=_draw(domain, "train", 48), test=_draw(domain, "test", 48))


def _draw(domain: str, split: str, count: int) -> Split:
    rng = array_generator("toy", domain, split)
    labels = numpy.arange(count, dtype=numpy.int64) % len(Toy.classes)
    row, column = numpy.mgrid[:SIZE, :SIZE]
    waves = numpy.stack([row, column, row + column])[labels]
    phase = rng.integers(0, 4, size=(count, 1, 1))
    on = ((waves + phase) // 2) % 2 == 1
    stripes, ground, noise = SHIFTS[domain]
    pixels = numpy.where(on, stripes, ground)[..., None] + rng.normal(0, noise, size=(count, SIZE, SIZE, 3))
    images: NDArray[numpy.uint8] = pixels.clip(0, 255).astype(numpy.uint8)
    return Split(images=images, labels=labels)
