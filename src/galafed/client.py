"""A client: the party that holds one domain. It does jobs, keeps what must stay, and answers or says why not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from galafed.batches import WorkError
from galafed.loops import Images, fit, sweep
from galafed.messages import Failure, Held, Job, Reply
from galafed.model import State
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


class Client:
    """One party with its data and memory; does one job at a time on a bench."""

    def __init__(self, name: str, data: Images) -> None:
        self.name = name
        self.data = data
        self.memory = Memory()

    def execute(self, job: Job, bench: Bench, seed: int) -> Reply | Failure:
        """Do a job. Bad data and impossible tasks become a named failure; errors of the program are not hidden."""
        started = time.perf_counter()
        self.memory.enter(job.round)
        work = job.task.work
        cache = self.memory.cache
        lost = [part.tag for part in job.payload.values() if isinstance(part, Held) and part.tag not in cache]
        if lost:
            return Failure(self.name, job.task.name, "forgot", f"it no longer holds {lost[0]}")
        states = {name: cache[part.tag] if isinstance(part, Held) else part for name, part in job.payload.items()}
        if job.tags:  # the model of this round: whoever asks for it again need not send it again
            self.memory.cache = {tag: states[name] for name, tag in job.tags.items()}
        try:
            if isinstance(work, Fit):
                return self._fit(job, work, bench, seed, states, started)
            parts = self._sweep(job, work, bench, seed, states)
        except WorkError as error:
            return Failure(self.name, job.task.name, "refused", str(error))
        seconds = time.perf_counter() - started
        return Reply(self.name, parts, {}, seconds=seconds, holds=tuple(self.memory.cache))

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

    def _sweep(
        self, job: Job, work: Sweep, bench: Bench, seed: int, states: Mapping[str, State]
    ) -> Mapping[str, State]:
        memory = self.memory
        stream = (seed, "round", job.round, job.task.name, self.name)
        start = self._start(work, bench, seed, states)
        swept = sweep(work, bench, self.data, start, stream=stream, rows=memory.rows)
        memory.rows.setdefault(work.stream, {}).update(swept.rows)
        memory.round.update({part: swept.parts[part] for part in work.keeps})
        return {part: state for part, state in swept.parts.items() if part not in work.keeps}

    def _fit(
        self, job: Job, work: Fit, bench: Bench, seed: int, states: Mapping[str, State], started: float
    ) -> Reply | Failure:
        memory = self.memory
        start = self._start(work, bench, seed, states)
        persistent = work.optimiser.persistent
        kept = {name: memory.run[f"momentum/{name}"] for name in start if f"momentum/{name}" in memory.run}
        stream = (seed, "round", job.round, job.task.name, self.name, *([work.repeat] if work.repeat else []))
        momentum = kept if persistent else {}
        fitted = fit(work, bench, self.data, start, stream=stream, momentum=momentum, rows=memory.rows)
        if persistent:
            memory.run.update({f"momentum/{name}": state for name, state in fitted.momentum.items()})
        memory.run.update({f"own/{name}": fitted.states[name] for name in work.own})
        finished = work.finish(fitted.states)
        memory.round.update(finished.stays)
        if finished.holds:
            memory.cache = dict(finished.holds)
        loss = {"loss": fitted.losses[0]} | {f"loss_{n}": v for n, v in enumerate(fitted.losses[1:], start=2)}
        seconds = time.perf_counter() - started
        return Reply(self.name, finished.sends, loss, seconds=seconds, holds=tuple(memory.cache))
