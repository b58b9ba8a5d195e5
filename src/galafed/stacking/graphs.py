"""A step recorded once as a CUDA graph and replayed."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

import torch

from galafed.runs.garbage import put_off

WARM_UP = 3
"""Steps taken one operation after the other before recording: kernels are compiled and chosen in them.

A step that is never taken more often than this is never recorded.
"""


ENOUGH = 4
"""Steps that are worth a recording of their own."""

UNROLLED = 8
"""Steps in one graph: what a step leaves to be done in the background then overlaps with the next one."""


class Recorded:
    """A step without arguments or results, whose tensors all stay in place; without `records` it is simply called.

    `settle` waits for what steps left to be done in the background. What is `brief`, since others like it were recorded
    and it may never be asked for again, is warmed up and recorded as little as can be at first.
    """

    def __init__(
        self, step: Callable[[], None], settle: Callable[[], None], device: torch.device, *, records: bool, brief: bool
    ) -> None:
        self._step = step
        self._settle = settle
        self._device = device
        self._records = records
        self._brief = brief
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._taken = 0

    def run(self, steps: int) -> float:
        """Take so many steps; returns the seconds it took to compile and record, once in a recording's life."""
        if not self._records:
            for _ in range(steps):
                self._step()
            self._settle()
            return 0.0
        started, prepared, first = time.perf_counter(), 0.0, self._taken == 0
        hasty = first and self._brief
        while steps and (self._taken < (1 if self._brief else WARM_UP) or (hasty and steps < ENOUGH)):
            self._on_the_side()
            steps -= 1
        unrolled = 1 if hasty else UNROLLED
        plan = [unrolled] * (steps // unrolled) + [1] * (steps % unrolled)
        for size in set(plan) - self._graphs.keys():
            self._graphs[size] = self._record(size)
        if first and not hasty:
            torch.cuda.synchronize(self._device)
            prepared = time.perf_counter() - started
        for size in plan:
            self._graphs[size].replay()
        self._taken += steps
        return prepared

    def _on_the_side(self) -> None:
        """A step on the stream of recordings, as a step about to be recorded must be."""
        here, side = torch.cuda.current_stream(self._device), foreground(self._device)
        side.wait_stream(here)
        with torch.cuda.stream(side):
            self._step()
            self._settle()
        here.wait_stream(side)
        self._taken += 1

    def _record(self, steps: int) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        # One stream for all recordings, replayed one after the other: graphs of one stream share a workspace of the
        # matrix library, and replaying two at the same time would corrupt both without a word.
        # A graph that the garbage collector throws away in the meantime would spoil the recording.
        with put_off(), torch.cuda.graph(graph, stream=foreground(self._device), pool=shared_memory()):
            for _ in range(steps):
                self._step()
            self._settle()
        return graph


@lru_cache
def foreground(device: torch.device) -> torch.cuda.Stream:
    """The stream on which steps are warmed up and recorded; its kernels go before those of the background."""
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]


@lru_cache
def background(device: torch.device) -> torch.cuda.Stream:
    """A stream for work that can wait, and fills the gaps."""
    return torch.cuda.Stream(device, priority=0)  # type: ignore[no-untyped-call]


@lru_cache
def shared_memory() -> torch.cuda._POOL_HANDLE:
    """The memory all graphs share: only one of them runs at a time, and none leaves anything in it."""
    return torch.cuda.graph_pool_handle()
