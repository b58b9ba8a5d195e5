"""A worker of the engine `stacked`: does the jobs of some clients together, or one after the other where it must."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from galafed.batches import WorkError
from galafed.client import Begun, Client
from galafed.loops import Bench, needed_rows, require
from galafed.messages import Failure, Job, Reply
from galafed.stacking import kernels
from galafed.stacking.fitting import Member, Workspace
from galafed.stacking.lean import LeanBench
from galafed.stacking.memory import images_at_best
from galafed.stacking.resident import Resident
from galafed.stacking.sweeping import images_at_once, shares_passes, sweep_together
from galafed.stacking.twins import CannotStack
from galafed.work import Fit, Sweep

Answer = Reply | Failure


class Worker:
    """Works on a bench of its own, for clients that all workers share; no two workers have the same client at once."""

    def __init__(
        self, bench: Bench, resident: Resident, clients: Mapping[str, Client], seed: int, notice: Callable[[str], None]
    ) -> None:
        self.bench = _own(bench)
        # For what is not stacked: a loop that knows of no clients cannot train twins, and goes as `serial` goes.
        self._plain = replace(bench)
        self._workspace = Workspace(self.bench, resident, notice)
        self._clients = clients
        self._seed = seed
        self._notice = notice

    def work(self, jobs: Sequence[Job]) -> list[Answer]:
        """Answers to jobs of the same task."""
        started = time.perf_counter()
        answers: list[Answer] = []
        ready: list[Begun] = []
        for job in jobs:
            begun = self._begin(job)
            if isinstance(begun, Failure):
                answers.append(begun)
            else:
                ready.append(begun)
        if not ready:
            return answers
        work = ready[0].job.task.work
        if not isinstance(work, Fit):
            return answers + [answer for group in _with_one_model(ready) for answer in self._sweep(work, group)]
        try:
            fitted = self._workspace.fit(work, [self._member(begun) for begun in ready])
        except CannotStack as reason:
            self._notice(f"{jobs[0].task.name}: {reason} cannot be stacked, so clients train one after the other")
            return answers + [self._alone(begun) for begun in ready]
        share = (time.perf_counter() - started) / len(jobs)
        for begun, result in zip(ready, fitted, strict=True):
            client = self._clients[begun.job.client]
            if isinstance(result, WorkError):
                answers.append(client.refuse(begun.job, result))
            else:
                answers.append(client.finish(begun.job, result, share))
        return answers

    def close(self) -> None:
        """Let go of what earlier work left for later work."""
        self._workspace.close()

    def _sweep(self, work: Sweep, group: Sequence[Begun]) -> list[Answer]:
        """Answers of clients that were sent the same model."""
        started = time.perf_counter()
        data = [self._clients[begun.job.client].data for begun in group]
        if len(group) == 1 or not shares_passes(work) or sum(map(len, data)) > images_at_once(work, self.bench):
            return [self._alone(begun) for begun in group]
        found = sweep_together(work, self.bench, data, group[0].states)
        share = (time.perf_counter() - started) / len(group)
        pairs = zip(group, found, strict=True)
        return [self._clients[begun.job.client].finish(begun.job, swept, share) for begun, swept in pairs]

    def _alone(self, begun: Begun) -> Answer:
        bench = self._plain if isinstance(begun.job.task.work, Fit) else self.bench
        return self._clients[begun.job.client].carry_out(begun, bench, time.perf_counter())

    def _begin(self, job: Job) -> Begun | Failure:
        client = self._clients[job.client]
        begun = client.begin(job, self.bench, self._seed)
        try:
            require(job.task.work, client.data)
            if isinstance(job.task.work, Fit):
                needed_rows(job.task.work, client.memory.rows)
        except WorkError as error:
            return begun if isinstance(begun, Failure) else client.refuse(job, error)
        return begun

    def _member(self, begun: Begun) -> Member:
        client = self._clients[begun.job.client]
        work = begun.job.task.work
        rows = needed_rows(work, client.memory.rows) if isinstance(work, Fit) else {}
        return Member(client.name, begun.states, begun.momentum, begun.stream, rows)


def _own(bench: Bench) -> Bench:
    """A bench with modules of its own, on kernels where they can be used."""
    at_once = images_at_best(bench.network, bench.device)
    if not kernels.usable(bench):
        # Where products are of low precision, folded weights would be rounded after the folding: other numbers.
        if bench.device.type == "cpu" and bench.products is None:
            return LeanBench(bench.network, bench.device, bench.dtype, sweep_batch=at_once)
        return replace(bench)
    from galafed.stacking.bench import FusedBench  # needs triton

    return FusedBench(bench.network, bench.device, bench.dtype, bench.products, at_once, compiles=True)


def _with_one_model(ready: Sequence[Begun]) -> list[list[Begun]]:
    """The jobs of each model; clients in this process that hold the same model hold the same tensors."""
    groups: dict[tuple[int, ...], list[Begun]] = {}
    for begun in ready:
        groups.setdefault(tuple(id(begun.states[name]) for name in sorted(begun.states)), []).append(begun)
    return list(groups.values())
