"""Which clients step together: batches of equal length, in every client's own order, none left out and none added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Segment:
    """Batches `first` to `first + steps` of an epoch, of `length` images each, of the clients `start` to `stop`."""

    start: int
    stop: int
    length: int
    first: int
    steps: int


def arrange(sizes: Sequence[int], batch_size: int) -> list[int]:
    """An order of the clients in which those that can step together stand side by side: most images first."""
    return sorted(range(len(sizes)), key=lambda k: (-(sizes[k] // batch_size), -(sizes[k] % batch_size), k))


def segments(sizes: Sequence[int], batch_size: int) -> list[Segment]:
    """One epoch of clients with so many images each, in the order of `arrange`; a last batch of one is left out.

    At first all clients step together; whoever has no full batch left takes the short one and is done.
    """
    plan: list[Segment] = []
    done = 0
    full = [size // batch_size for size in sizes]
    for level in sorted(set(full)):
        active = sum(count >= level for count in full)
        if level > done:
            plan.append(Segment(0, active, batch_size, done, level - done))
        finished = [k for k, count in enumerate(full) if count == level]
        for rest, group in groupby(finished, key=lambda k: sizes[k] % batch_size):
            clients = list(group)
            if rest > 1:
                plan.append(Segment(clients[0], clients[-1] + 1, rest, level, 1))
        done = level
    return plan
