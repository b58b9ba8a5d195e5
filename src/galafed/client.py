"""A client: the party that holds one domain. It does jobs, keeps what must stay, and answers or says why not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from galafed.batches import WorkError
from galafed.loops import REMEDY, Fitted, Images, Swept, fit, sweep
from galafed.messages import Failure, Held, Job, Reply
from galafed.model import State, StateError
from galafed.work import Fit, Sweep

if TYPE_CHECKING:
    from torch import Tensor

    from galafed.loops import Bench


@dataclass
class Memory:
    """What a client keeps: for the round (F_n), for the run (momentum), or as a cache that may be lost at any time."""

    round: dict[str, State] = field(default_factory=dict)
    run: dict[str, State] = field(default_factory=dict)
    cache: dict[str, State] = field(default_factory=dict)
    rows: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    """By stream: what was found out about every image in this round; it never leaves."""
    current_round: int = -1

    def enter(self, number: int) -> None:
        """Forget what was kept for another round."""
        if number != self.current_round:
            self.round.clear()
            self.rows.clear()
            self.current_round = number


@dataclass(frozen=True)
class Begun:
    """A job ready to be worked on: the states its modules start from, its random stream, and momentum by module."""

    job: Job
    states: Mapping[str, State]
    stream: tuple[object, ...]
    """The same wherever and however the job is done."""
    momentum: Mapping[str, State] = field(default_factory=dict)


class Client:
    """One party with its data and memory; does one job at a time on a bench.

    `execute` is the whole of it. An engine that works for several clients at once calls `begin` for each, does the
    work in its own way, and hands each its part of the result with `finish`.
    """

    def __init__(self, name: str, data: Images) -> None:
        self.name = name
        self.data = data
        self.memory = Memory()

    def execute(self, job: Job, bench: Bench, seed: int) -> Reply | Failure:
        """Do a job. Bad data and impossible tasks become a named failure; errors of the program are not hidden."""
        started = time.perf_counter()
        begun = self.begin(job, bench, seed)
        return begun if isinstance(begun, Failure) else self.carry_out(begun, bench, started)

    def carry_out(self, begun: Begun, bench: Bench, started: float) -> Reply | Failure:
        """Do a job that was begun."""
        job, work, rows = begun.job, begun.job.task.work, self.memory.rows
        try:
            if isinstance(work, Fit):
                momentum = begun.momentum
                done: Fitted | Swept = fit(
                    work, bench, self.data, begun.states, stream=begun.stream, momentum=momentum, rows=rows
                )
            else:
                done = sweep(work, bench, self.data, begun.states, stream=begun.stream, rows=rows)
                if work.exam is not None:
                    done = Swept({**done.parts, **self._examined(work.exam, bench, begun.states)}, done.rows)
        except WorkError as error:
            return self.refuse(job, error)
        return self.finish(job, done, time.perf_counter() - started)

    def _examined(self, work: Sweep, bench: Bench, states: Mapping[str, State]) -> Mapping[str, State]:
        """What a pass over the test images makes, or of none, where there are none."""
        if self.data.exam is None:
            return work.finish({}, bench.dtype)
        return sweep(work, bench, self.data.exam, states).parts

    def begin(self, job: Job, bench: Bench, seed: int) -> Begun | Failure:
        """Enter the job's round, find what the payload leaves to memory, and keep a tagged model."""
        memory, work = self.memory, job.task.work
        memory.enter(job.round)
        cache = memory.cache
        lost = [part.tag for part in job.payload.values() if isinstance(part, Held) and part.tag not in cache]
        if lost:
            return Failure(self.name, job.task.name, "forgot", f"it no longer holds {lost[0]}")
        states = {name: cache[part.tag] if isinstance(part, Held) else part for name, part in job.payload.items()}
        if job.tags:  # the model of this round: whoever asks for it again need not send it again
            memory.cache = {tag: states[name] for name, tag in job.tags.items()}
        stream: tuple[object, ...] = (seed, "round", job.round, job.task.name, self.name)
        try:
            start = self._start(work, bench, seed, states)
        except WorkError as error:
            return self.refuse(job, error)
        if not isinstance(work, Fit):
            return Begun(job, start, stream)
        stream = (*stream, *([work.repeat] if work.repeat else []))
        kept = {name: memory.run[f"momentum/{name}"] for name in start if f"momentum/{name}" in memory.run}
        return Begun(job, start, stream, kept if work.optimiser.persistent else {})

    def _start(self, work: Fit | Sweep, bench: Bench, seed: int, states: Mapping[str, State]) -> dict[str, State]:
        """The state each module starts from: what was kept in this round or since the first one, or what was sent."""
        memory = self.memory
        for name in work.recall:
            if name not in memory.round:
                raise WorkError(f"it kept no {name} in this round; it did not take part in local training")
        # A part without any state, such as a reversal of gradients, does not travel.
        start = {name: memory.round[name] if name in work.recall else states.get(name, {}) for name in work.modules}
        for name in work.own if isinstance(work, Fit) else ():
            if (kept := memory.run.get(f"own/{name}")) is None:
                kept = bench.network.fresh(f"{name}:{self.name}", seed, bench.dtype)
            start[name] = kept
        return start

    def finish(self, job: Job, done: Fitted | Swept, seconds: float) -> Reply | Failure:
        """Keep what stays here of the result, and answer with the rest; of a result that is none nothing is kept."""
        memory, work = self.memory, job.task.work
        if isinstance(done, Swept):
            return self._finish_sweep(job, done, seconds)
        if not isinstance(work, Fit):
            raise TypeError(f"{job.task.name} is no fit")
        try:
            finished = work.finish(done.states)
        except StateError as error:  # a loss may be finite and the statistics of its layers not
            return self.refuse(job, WorkError(f"what it trained cannot be averaged ({error}); {REMEDY}"))
        if work.optimiser.persistent:
            memory.run.update({f"momentum/{name}": state for name, state in done.momentum.items()})
        memory.run.update({f"own/{name}": done.states[name] for name in work.own})
        memory.round.update(finished.stays)
        if finished.holds:
            memory.cache = dict(finished.holds)
        loss = {"loss": done.losses[0]} | {f"loss_{n}": v for n, v in enumerate(done.losses[1:], start=2)}
        return Reply(self.name, finished.sends, loss, seconds=seconds, holds=tuple(memory.cache))

    def _finish_sweep(self, job: Job, done: Swept, seconds: float) -> Reply:
        memory, work = self.memory, job.task.work
        if not isinstance(work, Sweep):
            raise TypeError(f"{job.task.name} is no sweep")
        memory.rows.setdefault(work.stream, {}).update(done.rows)
        memory.round.update({part: done.parts[part] for part in work.keeps})
        sent = {part: state for part, state in done.parts.items() if part not in work.keeps}
        return Reply(self.name, sent, {}, seconds=seconds, holds=tuple(memory.cache))

    def refuse(self, job: Job, error: WorkError) -> Failure:
        """Work that cannot be done, as an answer."""
        return Failure(self.name, job.task.name, "refused", str(error))
