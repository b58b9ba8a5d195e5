"""The seam between a server program and its clients, wherever these are: `Federation.ask`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from galafed.errors import QuorumError
from galafed.lazy import torch
from galafed.messages import Failure, Held, Job, Replies, Reply
from galafed.model import Model, State, StateError, check_shapes, impossible
from galafed.participation import Participation
from galafed.runs.seeding import generator
from galafed.sites.ledger import Books, Direction, entry
from galafed.traffic import Traffic
from galafed.work import Fit, Sweep, Task

if TYPE_CHECKING:
    from galafed.networks.base import Network

EVERYONE = Participation()

PhaseListener = Callable[[str, int, int], None]
"""Told a task's name, how many clients have answered and how many were asked."""


class Engine(ABC):
    """Where client work is done."""

    notice: Callable[[str], None] = staticmethod(lambda text: None)
    """Told what the user should know, a sentence at a time."""
    books: Books
    """Where an engine whose payloads really cross a border writes each of them down."""
    federated: ClassVar[bool] = False
    """Whether clients are sites that keep their data; a method that pools data is then refused."""

    @abstractmethod
    def dispatch(
        self, jobs: Sequence[Job], timeout: float | None, progress: Callable[[int], None]
    ) -> list[Reply | Failure]:
        """Do every job and answer each with a reply or a failure, in any order."""

    def client_states(self) -> dict[str, dict[str, State]]:
        """What clients keep for the whole run, by client, for a checkpoint; empty where they keep it themselves."""
        return {}

    def restore_clients(self, states: Mapping[str, Mapping[str, State]]) -> None:  # noqa: B027 - may stay empty
        """Give clients back what `client_states` returned."""

    def close(self) -> None:  # noqa: B027 - may stay empty
        """Let go of processes, connections and memory."""


class Federation:
    """Named sources, one target, and a server that asks them to do things.

    Clients are always addressed and listed in order of name. A reply is checked before anyone sees it: a missing or
    unknown tensor, a wrong shape, NaN or infinity turn it into a failure that names the client.
    """

    def __init__(
        self,
        engine: Engine,
        network: Network,
        *,
        sources: Iterable[str],
        target: str,
        seed: int,
        domains: Iterable[str] = (),
        dtype: torch.dtype | None = None,
        quorum: int = 1,
        timeout: float | None = None,
        participation: Participation = EVERYONE,
    ) -> None:
        self.sources = self._all_sources = tuple(sorted(sources))
        """Those that take part: all of them before the first round, then those drawn for the round."""
        self.domains = tuple(sorted(domains)) or self.sources
        """The labelled domains: the streams of the one client that holds them all, else the sources themselves."""
        self.target = target
        self.network = network
        self.seed = seed
        self.dtype = dtype
        self.round = 0
        self.traffic = Traffic()
        self.failures: list[Failure] = []
        self.listener: PhaseListener = lambda task, done, asked: None
        self.books = engine.books = Books()
        self._engine = engine
        self._quorum = quorum
        self._timeout = timeout
        self._participation = participation
        self._holds: dict[str, frozenset[str]] = {}

    @property
    def everyone(self) -> tuple[str, ...]:
        """The sources that take part, and the target."""
        return (*self.sources, self.target)

    def fresh(self, part: str) -> State:
        """A part as it starts: a function of its name and the run's seed."""
        return self.network.fresh(part, self.seed, self.dtype)

    def begin_round(self, number: int, relevance: Mapping[str, float] | None = None) -> None:
        """Start a round with an empty ledger; where not all take part, sources are drawn, perhaps by `relevance`."""
        self.round = number
        self.traffic.clear()
        self.failures = []
        if self._participation.share < 1:
            self.sources = self._participation.draw(self._all_sources, self.rng("participation"), relevance)

    def rng(self, purpose: str) -> torch.Generator:
        """The server's random stream for one purpose in this round."""
        return generator(self.seed, "round", self.round, "server", purpose)

    def ask(
        self,
        members: str | Iterable[str],
        task: Task,
        payload: Model | Mapping[str, State],
        *,
        own: Mapping[str, Model | Mapping[str, State]] | None = None,
        timeout: float | None = None,
        need: int | None = None,
        keep: bool = True,
    ) -> Replies:
        """Ask members to do a task with a payload; returns the good replies and the named failures.

        `own` is what single members are sent besides. Without `keep`, members keep what they hold and nothing of what
        they are sent. Raises `QuorumError` where fewer than `need` sources answer, or
        where the target was asked and did not.
        """
        members = (members,) if isinstance(members, str) else tuple(sorted(members))
        mine: Mapping[str, Model | Mapping[str, State]] = own or {}

        def jobs(names: Iterable[str]) -> list[Job]:
            made = [self._job(name, task, payload, mine.get(name, {})) for name in names]
            return made if keep else [replace(job, tags={}) for job in made]

        answers = self._send(jobs(members), timeout)
        forgot = [name for name, answer in answers.items() if isinstance(answer, Failure) and answer.kind == "forgot"]
        if forgot:  # a client lost its cache: send it everything
            for name in forgot:
                self._holds.pop(name, None)
            answers |= self._send(jobs(forgot), timeout)
        replies = Replies(
            {name: a for name in members if isinstance(a := answers[name], Reply)},
            {name: a for name in members if isinstance(a := answers[name], Failure)},
        )
        self.failures.extend(replies.failures.values())
        self._require(members, task, replies, self._quorum if need is None else need)
        return replies

    def _job(self, client: str, task: Task, *payloads: Model | Mapping[str, State]) -> Job:
        """The job for one client, leaving out of the payloads what it already holds."""
        parts: dict[str, State] = {}
        tags: dict[str, str] = {}
        for payload in payloads:
            parts |= payload.parts if isinstance(payload, Model) else payload
            tags |= payload.tags if isinstance(payload, Model) else {}
        held = self._holds.get(client, frozenset())
        sent = {part: Held(tags[part]) if tags.get(part) in held else state for part, state in parts.items()}
        return Job(client, self.round, task, sent, tags)

    def _send(self, jobs: Sequence[Job], timeout: float | None) -> dict[str, Reply | Failure]:
        if not jobs:
            return {}
        by_client = {job.client: job for job in jobs}
        for job in jobs:
            self.traffic.down(job)
            states = {part: state for part, state in job.payload.items() if not isinstance(state, Held)}
            self._write_down(job, "in", states, job.size)
        name, asked = jobs[0].task.name, len(jobs)
        self.listener(name, 0, asked)
        limit = self._timeout if timeout is None else timeout
        answers = self._engine.dispatch(jobs, limit, lambda done: self.listener(name, done, asked))
        accepted = {a.client: self._accept(by_client[a.client], a) for a in answers if a.client in by_client}
        accepted |= self._impossible([answer for answer in accepted.values() if isinstance(answer, Reply)], name)
        lost = {client: Failure(client, name, "lost", "no answer came back") for client in by_client}
        return lost | accepted

    def _accept(self, job: Job, answer: Reply | Failure) -> Reply | Failure:
        """Count a reply and check it against what the task promises."""
        if isinstance(answer, Failure):
            return answer
        self.traffic.up(job, answer)
        self._write_down(job, "out", answer.parts, answer.size, answer.metrics)
        work = job.task.work
        schema = work.schema(self.network)
        precision = torch.float64 if isinstance(work, Sweep) and work.exact else self.dtype
        try:
            if missing := schema.keys() - answer.parts.keys():
                raise StateError(f"the reply of client {job.client!r} lacks {min(missing)!r}")
            if extra := answer.parts.keys() - schema.keys():
                raise StateError(f"the reply of client {job.client!r} has an unknown part {min(extra)!r}")
            for part, expected in schema.items():
                check_shapes(answer.parts[part], expected, job.client, dtype=precision)
            if isinstance(work, Fit) and "loss" not in answer.metrics:
                raise StateError(f"the reply of client {job.client!r} lacks its loss")
            for metric, value in answer.metrics.items():
                if not math.isfinite(value):
                    raise StateError(f"{metric!r} of client {job.client!r} is {value}")
        except StateError as error:
            self._holds.pop(job.client, None)
            return Failure(job.client, job.task.name, "invalid", str(error))
        if answer.holds:
            self._holds[job.client] = frozenset(answer.holds)
        return answer

    def _write_down(
        self,
        job: Job,
        direction: Direction,
        parts: Mapping[str, State],
        size: int,
        numbers: Iterable[str] = (),
    ) -> None:
        """What would cross, where clients are in this process; an engine with sites writes down what does."""
        if not self._engine.federated:
            shapes = {
                f"{part}|{name}": [str(value.dtype).removeprefix("torch."), list(value.shape)]
                for part, state in parts.items()
                for name, value in state.items()
            }
            line = entry(
                site=job.client,
                round_number=job.round,
                task=job.task.name,
                direction=direction,
                sha256=None,
                tensors=shapes,
                size=size,
                numbers=numbers,
            )
            self.books.later(line)

    def _impossible(self, replies: Sequence[Reply], task: str) -> dict[str, Failure]:
        """Replies with NaN, infinity or a negative variance, as failures; all are looked at together.

        Those of sites wait in files, and one at a time is read.
        """
        at_once = 1 if self._engine.federated else max(len(replies), 1)
        found: dict[str, str] = {}
        for first in range(0, len(replies), at_once):
            found |= impossible({r.client: _flat(r.parts) for r in replies[first : first + at_once]})
        wrong = {client: Failure(client, task, "invalid", text) for client, text in found.items()}
        for client in wrong:
            self._holds.pop(client, None)
        return wrong

    def _require(self, members: Sequence[str], task: Task, replies: Replies, need: int) -> None:
        sources = [name for name in members if name != self.target]
        answered = [name for name in replies.names if name != self.target]
        need = min(need, len(sources))
        if len(answered) < need or (self.target in members and self.target not in replies.answers):
            reasons = "; ".join(str(failure) for failure in replies.failures.values())
            raise QuorumError(
                f"too few clients answered {task.name!r} in round {self.round + 1}: {len(replies.names)} of "
                f"{len(members)} (needed: {need} source(s){', the target' if self.target in members else ''}); "
                f"the round was undone. {reasons}"
            )

    def close(self) -> None:
        """Close the books and the engine."""
        self.books.flush()
        self._engine.close()


def _flat(parts: Mapping[str, State]) -> State:
    """The tensors of all parts; the first part's keep their names, should others have the same."""
    tensors: State = {}
    for part, state in parts.items():
        tensors |= {f"{part}.{name}" if name in tensors else name: value for name, value in state.items()}
    return tensors
