"""Which images each step takes: portions of steps whose batches have the same lengths, so that one recording fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from galafed.batches import count_batches, parallel_batches
from galafed.runs.seeding import generator
from galafed.stacking.plan import segments
from galafed.stacking.resident import Resident
from galafed.work import Fit

Names = tuple[object, ...]
"""What a random stream is called."""


@dataclass(frozen=True)
class Portion:
    """Some steps that the clients `start` to `stop` of a fit, n of them, take together."""

    start: int
    stop: int
    orders: Mapping[str, Tensor]
    """Of every stream: the numbers of the images, [steps, n, B]."""
    before: Sequence[int]
    """How many steps each of these clients took before."""

    @property
    def steps(self) -> int:
        """How many steps."""
        return len(next(iter(self.orders.values())))

    @property
    def longest(self) -> int:
        """How many images the longest batch of a step has."""
        return max(length for _, length in self.lengths)

    @property
    def lengths(self) -> tuple[tuple[str, int], ...]:
        """Of every stream: how many images a batch has."""
        return tuple((name, order.shape[2]) for name, order in self.orders.items())


def portions(work: Fit, resident: Resident, clients: Sequence[tuple[str, Names]]) -> Iterator[Portion]:
    """All steps of a fit, for clients by name and random stream in the order of `arrange`."""
    if work.streams == ("",):
        for epoch in range(work.epochs):
            yield from _epoch(work, resident, clients, epoch)
        return
    ((name, names),) = clients
    yield from _in_parallel(work, resident, name, names)


def _epoch(work: Fit, resident: Resident, clients: Sequence[tuple[str, Names]], epoch: int) -> Iterator[Portion]:
    """An epoch of clients that each pass over their own images: the batches of `shuffled_batches`."""
    sizes = [len(resident.data[name]) for name, _ in clients]
    orders = [
        torch.randperm(size, generator=generator(*names, "shuffle", epoch)) + resident.first[name, ""]
        for size, (name, names) in zip(sizes, clients, strict=True)
    ]
    for segment in segments(sizes, work.batch_size):
        here = range(segment.start, segment.stop)
        begin = segment.first * work.batch_size
        taken = [orders[k][begin : begin + segment.steps * segment.length] for k in here]
        order = torch.stack([own.view(segment.steps, segment.length) for own in taken], dim=1)
        before = [epoch * count_batches(sizes[k], work.batch_size) + segment.first for k in here]
        yield Portion(segment.start, segment.stop, {"": order}, before)


def _in_parallel(work: Fit, resident: Resident, name: str, names: Names) -> Iterator[Portion]:
    """All steps of a client that holds several domains, each a stream: the batches of `parallel_batches`."""
    sizes = {stream: len(resident.data[name].stream(stream)) for stream in work.streams}
    batches = parallel_batches(sizes, work.batch_size, work.epochs, names)
    before = 0
    for _, alike in groupby(batches, key=lambda found: tuple(map(len, found.values()))):
        found = list(alike)
        orders = {s: torch.stack([batch[s] for batch in found]).unsqueeze(1) + resident.first[name, s] for s in sizes}
        yield Portion(0, 1, orders, [before])
        before += len(found)
