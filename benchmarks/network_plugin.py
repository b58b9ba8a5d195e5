"""A benchmark for `network_round.py`: stripes of 32 pixels a side at six sites, few enough that bytes take the time."""

from __future__ import annotations

from dataclasses import replace

import numpy

from galafed.benchmarks.base import Domain, Split, benchmarks
from galafed.benchmarks.toy import SIZE, Toy

FEW = 12
TIMES = 32 // SIZE


@benchmarks.register("few-stripes")
class FewStripes(Toy):
    """The stripes of toy, enlarged, under other names."""

    domains = tuple(f"site-{number}" for number in range(6))
    image_size = TIMES * SIZE
    default_target = domains[-1]

    def load(self, domain: str) -> Domain:
        """A handful of images."""
        known = Toy().load(Toy.domains[int(domain[-1]) % len(Toy.domains)])
        return replace(known, name=domain, train=_enlarged(known.train), test=_enlarged(known.test))


def _enlarged(split: Split) -> Split:
    images = split.images[:FEW].repeat(TIMES, axis=1).repeat(TIMES, axis=2)
    return Split(images=numpy.ascontiguousarray(images), labels=split.labels[:FEW])
