"""A step recorded once as a CUDA graph and replayed; on a CPU it is simply called."""

from __future__ import annotations

from collections.abc import Callable

import torch

WARM_UP = 3
"""Steps taken one operation after the other before recording: libraries choose their kernels in them.

A step that is never taken more often than this is never recorded.
"""


class Recorded:
    """A step without arguments or results, whose tensors all stay in place."""

    def __init__(self, step: Callable[[], None], device: torch.device) -> None:
        self._step = step
        self._device = device
        self._graph: torch.cuda.CUDAGraph | None = None
        self._taken = 0

    def run(self, steps: int) -> None:
        """Take so many steps."""
        if self._device.type != "cuda":
            for _ in range(steps):
                self._step()
            return
        while steps and self._taken < WARM_UP:
            self._on_the_side()
            steps -= 1
        if steps and self._graph is None:
            self._record()
        for _ in range(steps):
            self._graph.replay()  # type: ignore[union-attr]
        self._taken += steps

    def _on_the_side(self) -> None:
        """A step on a stream of its own, as recording needs."""
        stream = side_stream(self._device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._step()
        torch.cuda.current_stream().wait_stream(stream)
        self._taken += 1

    def _record(self) -> None:
        self._graph = torch.cuda.CUDAGraph()
        # One stream for all recordings, replayed one after the other: graphs of one stream share a workspace of the
        # matrix library, and replaying two at the same time would corrupt both without a word.
        with torch.cuda.graph(self._graph, stream=side_stream(self._device), pool=pool()):
            self._step()


_streams: dict[torch.device, torch.cuda.Stream] = {}
_pools: list[tuple[int, int]] = []


def side_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream on which steps are warmed up and recorded."""
    if device not in _streams:
        _streams[device] = torch.cuda.Stream(device)
    return _streams[device]


def pool() -> tuple[int, int]:
    """The memory all graphs share: only one of them runs at a time, and none leaves anything in it."""
    if not _pools:
        _pools.append(torch.cuda.graph_pool_handle())
    return _pools[0]
