"""What crosses the seam: jobs to clients, replies and named failures from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from galafed.model import State, size_of
from galafed.work import Task


@dataclass(frozen=True)
class Held:
    """Stands for a state that the client already holds under this tag, and that therefore does not travel."""

    tag: str


Payload = Mapping[str, State | Held]


@dataclass(frozen=True)
class Job:
    """One task for one client in one round."""

    client: str
    round: int
    task: Task
    payload: Payload
    tags: Mapping[str, str] = field(default_factory=dict)
    """Of a part that belongs to a tagged model: the tag under which the client keeps it."""

    @property
    def size(self) -> int:
        """Bytes that travel to the client: tensors, and the task's arguments as JSON."""
        states = {name: part for name, part in self.payload.items() if not isinstance(part, Held)}
        return size_of(states) + len(json.dumps(dict(self.task.arguments)))


@dataclass(frozen=True)
class Reply:
    """What a client sends back: parts of states, plain numbers, and the tags it now holds."""

    client: str
    parts: Mapping[str, State]
    metrics: Mapping[str, float]
    seconds: float
    holds: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that travel from the client."""
        return size_of(self.parts)


@dataclass(frozen=True)
class Failure:
    """Why a client did not contribute: "forgot", "refused", "invalid", "late", "lost", …, and a sentence."""

    client: str
    task: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.client}: {self.task} {self.kind}: {self.reason}"


@dataclass(frozen=True)
class Replies:
    """The replies to one question in order of client name, and the failures."""

    answers: Mapping[str, Reply]
    failures: Mapping[str, Failure] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Clients that answered, in order of name."""
        return tuple(self.answers)

    def __getitem__(self, part: str) -> dict[str, State]:
        """One part from every client that answered: replies["extractor"]["svhn"]."""
        return {client: reply.parts[part] for client, reply in self.answers.items()}

    def __iter__(self) -> Iterator[Reply]:
        return iter(self.answers.values())

    def mean(self, metric: str) -> float:
        """The mean of a number over the clients that answered."""
        values = [reply.metrics[metric] for reply in self]
        return sum(values) / len(values)
