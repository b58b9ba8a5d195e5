"""The fast engine: all clients of a phase advance together on one device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from queue import SimpleQueue
from typing import TYPE_CHECKING, ClassVar

from galafed.allocation import keep_for_the_next_step
from galafed.engines.base import InThisProcess, engines, in_time
from galafed.messages import Failure, Job, Reply
from galafed.work import Fit, Sweep

if TYPE_CHECKING:
    from galafed.client import Client
    from galafed.config import Run
    from galafed.loops import Bench, Images
    from galafed.stacking.worker import Worker

Answer = Reply | Failure

WORTHWHILE = 4
"""Threads that one client's operations, which are small, can make use of."""
PAYS = 3
"""With fewer rounds than this, compiling and recording would take longer than it saves."""


@engines.register("stacked")
class Stacked(InThisProcess):
    """Equals `serial` within rounding. On a CPU, where one operation keeps one core busy, every core has clients."""

    name: ClassVar[str]
    summary: ClassVar[str] = "all clients at once on one device; on a GPU many times faster"

    def __init__(self, *, bench: Bench, data: Mapping[str, Images], seed: int, config: Run | None = None) -> None:
        from galafed.client import Client  # needs torch, which listing the engines does not
        from galafed.stacking.resident import Resident
        from galafed.stacking.worker import Worker

        rounds = config.rounds if config is not None else PAYS
        bench = replace(bench, compiles=bench.device.type == "cuda" and rounds >= PAYS)
        resident = Resident(data, bench.device)
        self.clients: dict[str, Client] = {name: Client(name, images) for name, images in resident.data.items()}
        cores = len(os.sched_getaffinity(0)) if bench.device.type == "cpu" else 1
        threads = config.threads if config is not None else cores
        self._workers = [
            Worker(bench, resident, self.clients, seed, self._once) for _ in range(max(1, cores // threads))
        ]
        if bench.device.type == "cpu":
            keep_for_the_next_step(len(self._workers))
        self._idle = min(cores, WORTHWHILE)
        self._at_once = config.max_clients_at_once if config is not None else 0
        self._noticed: set[str] = set()
        self.bench = self._workers[0].bench

    def dispatch(self, jobs: Sequence[Job], timeout: float | None, progress: Callable[[int], None]) -> list[Answer]:
        answers: list[Answer] = []
        tasks = {job.client: job.task.name for job in jobs}
        for done in self._each([chunk for task in _by_task(jobs) for chunk in self._chunks(task)]):
            answers += [in_time(answer, tasks[answer.client], timeout) for answer in done]
            progress(len(answers))
        return answers

    def _chunks(self, jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
        """Jobs that are done together: as many as fit, and not so many that a worker has nothing to do."""
        work, share = jobs[0].task.work, -(-len(jobs) // len(self._workers))
        if isinstance(work, Fit):
            size = self._at_once or min(self._fitting(work), share)
            yield from (jobs[start : start + size] for start in range(0, len(jobs), size))
            return
        yield from self._passes(work, jobs, share)

    def _passes(self, work: Sweep, jobs: Sequence[Job], share: int) -> Iterator[Sequence[Job]]:
        """Jobs of a sweep whose images fit in one pass, at most `share` of them."""
        from galafed.stacking.sweeping import images_at_once

        most, images = images_at_once(work, self.bench), 0
        chunk: list[Job] = []
        for job in jobs:
            count = len(self.clients[job.client].data)
            if chunk and (images + count > most or len(chunk) == share):
                yield chunk
                chunk, images = [], 0
            chunk.append(job)
            images += count
        yield chunk

    def _each(self, chunks: Sequence[Sequence[Job]]) -> Iterator[list[Answer]]:
        """The answers to each chunk as they come; without threads where there is one worker only."""
        if len(self._workers) == 1:
            for chunk in chunks:
                yield self._workers[0].work(chunk)
            return
        if len(chunks) == 1:  # the target's work: the other cores would have none
            with _threads(self._idle):
                yield self._workers[0].work(chunks[0])
            return
        free: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            free.put(worker)

        def work(chunk: Sequence[Job]) -> list[Answer]:
            worker = free.get()
            try:
                return worker.work(chunk)
            finally:
                free.put(worker)

        with ThreadPoolExecutor(len(self._workers)) as threads:
            for done in as_completed([threads.submit(work, chunk) for chunk in chunks]):
                yield done.result()

    def _fitting(self, work: Fit) -> int:
        from galafed.stacking.memory import clients_at_once

        return clients_at_once(work, self.bench)

    def _once(self, text: str) -> None:
        """Say something to the user, once."""
        if text not in self._noticed:
            self._noticed.add(text)
            self.notice(text)

    def close(self) -> None:
        """Recordings and stacks go at once: they hang together in circles, and would wait for the garbage collector."""
        for worker in self._workers:
            worker.close()
        super().close()


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let operations use so many threads, and as many as before afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _by_task(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs of each task."""
    return [list(group) for _, group in groupby(jobs, key=lambda job: id(job.task))]
