"""A step recorded once as a CUDA graph and replayed."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

import torch

WARM_UP = 3
"""Steps taken one operation after the other before recording: kernels are compiled and chosen in them.

A step that is never taken more often than this is never recorded.
"""


class Recorded:
    """A step without arguments or results, whose tensors all stay in place; without `records` it is simply called."""

    def __init__(self, step: Callable[[], None], device: torch.device, *, records: bool) -> None:
        self._step = step
        self._device = device
        self._records = records
        self._graph: torch.cuda.CUDAGraph | None = None
        self._taken = 0

    def run(self, steps: int) -> float:
        """Take so many steps; returns the seconds it took to compile and record, once in a recording's life."""
        if not self._records:
            for _ in range(steps):
                self._step()
            return 0.0
        started, prepared = time.perf_counter(), 0.0
        first = self._taken == 0
        while steps and self._taken < WARM_UP:
            self._on_the_side()
            steps -= 1
        if steps and self._graph is None:
            self._record()
        if first:
            torch.cuda.synchronize(self._device)
            prepared = time.perf_counter() - started
        for _ in range(steps):
            self._graph.replay()  # type: ignore[union-attr]
        self._taken += steps
        return prepared

    def _on_the_side(self) -> None:
        """A step on the stream of recordings, as a step about to be recorded must be."""
        here, side = torch.cuda.current_stream(self._device), side_stream(self._device)
        side.wait_stream(here)
        with torch.cuda.stream(side):
            self._step()
        here.wait_stream(side)
        self._taken += 1

    def _record(self) -> None:
        self._graph = torch.cuda.CUDAGraph()
        # One stream for all recordings, replayed one after the other: graphs of one stream share a workspace of the
        # matrix library, and replaying two at the same time would corrupt both without a word.
        with torch.cuda.graph(self._graph, stream=side_stream(self._device), pool=shared_memory()):
            self._step()


@lru_cache
def side_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream on which steps are warmed up and recorded."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@lru_cache
def shared_memory() -> torch.cuda._POOL_HANDLE:
    """The memory all graphs share: only one of them runs at a time, and none leaves anything in it."""
    return torch.cuda.graph_pool_handle()
