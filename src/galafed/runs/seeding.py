"""Named random streams: every draw comes from a generator keyed by what it is for, never from a shared one.

Two streams with different names are independent, so adding a client, or logging more often, shifts nobody else's draws.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from galafed.lazy import numpy, torch


def seed_for(*names: object) -> int:
    """A 63-bit seed for the stream with these names, for example `seed_for(run_seed, "round", 3, "train", "svhn")`."""
    digest = hashlib.blake2b("\x1f".join(str(name) for name in names).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def seeds_for(names: Sequence[object], rest: Iterable[Sequence[object]]) -> list[int]:
    """`seed_for` of the same first names and many different last ones, hashing the first ones once."""
    begun = hashlib.blake2b("".join(f"{name}\x1f" for name in names).encode(), digest_size=8)
    seeds = []
    for last in rest:
        copy = begun.copy()
        copy.update("\x1f".join(map(str, last)).encode())
        seeds.append(int.from_bytes(copy.digest(), "big") >> 1)
    return seeds


def generator(*names: object) -> torch.Generator:
    """A CPU torch generator for the stream with these names."""
    return torch.Generator().manual_seed(seed_for(*names))


def array_generator(*names: object) -> numpy.random.Generator:
    """A numpy generator for the stream with these names."""
    return numpy.random.default_rng(seed_for(*names))
