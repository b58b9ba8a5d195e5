"""A client: the party that holds one domain. It does jobs, keeps what must stay, and answers or says why not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from galafed.loops import Fitted, Images, WorkError, fit, sweep
from galafed.messages import Failure, Held, Job, Reply
from galafed.model import State
from galafed.work import Fit

if TYPE_CHECKING:
    from galafed.loops import Bench


@dataclass
class Memory:
    """What a client keeps: for the round (F_n), for the run (momentum), or as a cache that may be lost at any time."""

    round: dict[str, State] = field(default_factory=dict)
    run: dict[str, State] = field(default_factory=dict)
    cache: dict[str, State] = field(default_factory=dict)
    current_round: int = -1

    def enter(self, number: int) -> None:
        """Forget what was kept for another round."""
        if number != self.current_round:
            self.round.clear()
            self.current_round = number


@dataclass(frozen=True)
class Begun:
    """A job ready to be worked on: the states its modules start from and, of a `Fit`, momentum by module."""

    job: Job
    states: Mapping[str, State]
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
        begun = self.begin(job)
        if isinstance(begun, Failure):
            return begun
        work = job.task.work
        try:
            if isinstance(work, Fit):
                stream = self.stream(job, seed)
                done: Fitted | dict[str, State] = fit(
                    work, bench, self.data, begun.states, stream=stream, momentum=begun.momentum
                )
            else:
                done = sweep(work, bench, self.data, begun.states)
        except WorkError as error:
            return self.refuse(job, error)
        return self.finish(job, done, time.perf_counter() - started)

    def stream(self, job: Job, seed: int) -> tuple[object, ...]:
        """The name of the random stream of a job: the same wherever and however it is done."""
        return (seed, "round", job.round, job.task.name, self.name)

    def begin(self, job: Job) -> Begun | Failure:
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
        if not isinstance(work, Fit):
            return Begun(job, {name: states[name] for name in work.modules})
        for name in work.recall:
            if name not in memory.round:
                missing = WorkError(f"it kept no {name} in this round; it did not take part in local training")
                return self.refuse(job, missing)
        start = {name: memory.round[name] if name in work.recall else states[name] for name in work.modules}
        if not work.optimiser.persistent:
            return Begun(job, start)
        kept = {name: memory.run[f"momentum/{name}"] for name in start if f"momentum/{name}" in memory.run}
        return Begun(job, start, kept)

    def finish(self, job: Job, done: Fitted | dict[str, State], seconds: float) -> Reply:
        """Keep what stays here of the result, and answer with the rest."""
        memory, work = self.memory, job.task.work
        if not isinstance(work, Fit) or not isinstance(done, Fitted):
            return Reply(self.name, cast(dict[str, State], done), {}, seconds=seconds, holds=tuple(memory.cache))
        if work.optimiser.persistent:
            memory.run.update({f"momentum/{name}": state for name, state in done.momentum.items()})
        finished = work.finish(done.states)
        memory.round.update(finished.stays)
        if finished.holds:
            memory.cache = dict(finished.holds)
        loss = {"loss": done.losses[0]} | {f"loss_{n}": v for n, v in enumerate(done.losses[1:], start=2)}
        return Reply(self.name, finished.sends, loss, seconds=seconds, holds=tuple(memory.cache))

    def refuse(self, job: Job, error: WorkError) -> Failure:
        """Work that cannot be done, as an answer."""
        return Failure(self.name, job.task.name, "refused", str(error))
