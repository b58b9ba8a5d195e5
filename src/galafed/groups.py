"""Random groups of sources."""

from __future__ import annotations

from collections.abc import Iterable

from galafed.lazy import torch


def random_halves(names: Iterable[str], rng: torch.Generator, *, balanced: bool = True) -> list[tuple[str, ...]]:
    """Split names at random into two groups, never an empty one; a single name stays one group.

    Balanced: shuffle and halve; of an odd number, the side that gets one more is random too. Otherwise every name
    tosses a coin, and all the same side is tossed again.
    """
    ordered = sorted(names)
    if len(ordered) < 2:
        return [tuple(ordered)]
    shuffled = [ordered[i] for i in torch.randperm(len(ordered), generator=rng).tolist()]
    if balanced:
        cut = (len(ordered) + int(torch.randint(2, (), generator=rng))) // 2
        return [tuple(sorted(shuffled[:cut])), tuple(sorted(shuffled[cut:]))]
    while True:
        coins = torch.randint(2, (len(ordered),), generator=rng).tolist()
        if 0 < sum(coins) < len(ordered):
            return [tuple(n for n, coin in zip(ordered, coins, strict=True) if coin == side) for side in (0, 1)]


def random_pair(names: Iterable[str], rng: torch.Generator) -> tuple[str, ...]:
    """Two different names, uniformly, without replacement."""
    ordered = sorted(names)
    return tuple(sorted(ordered[i] for i in torch.randperm(len(ordered), generator=rng)[:2].tolist()))
