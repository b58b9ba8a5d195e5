"""How an engine is found and made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Protocol

from galafed.allocation import give_back_what_is_free
from galafed.federation import Engine
from galafed.messages import Failure, Reply
from galafed.registry import Registry

if TYPE_CHECKING:
    from galafed.client import Client
    from galafed.config import Run
    from galafed.loops import Bench, Images
    from galafed.model import State


class EngineFactory(Protocol):
    """An engine class: made from a bench, the data of each client by name, the run's seed and its configuration."""

    name: ClassVar[str]
    summary: ClassVar[str]
    federated: ClassVar[bool]

    def __call__(self, *, bench: Bench, data: Mapping[str, Images], seed: int, config: Run | None = None) -> Engine: ...


engines: Registry[EngineFactory] = Registry("engine", "galafed.engines")


class InThisProcess(Engine):
    """An engine whose clients are objects of this process."""

    bench: Bench
    clients: dict[str, Client]

    def close(self) -> None:
        if self.bench.device.type == "cpu":
            give_back_what_is_free()

    def client_states(self) -> dict[str, dict[str, State]]:
        return {name: dict(client.memory.run) for name, client in self.clients.items() if client.memory.run}

    def restore_clients(self, states: Mapping[str, Mapping[str, State]]) -> None:
        for name, kept in states.items():
            self.clients[name].memory.run = {
                part: {key: value.to(self.bench.device) for key, value in state.items()} for part, state in kept.items()
            }


def in_time(answer: Reply | Failure, task: str, timeout: float | None) -> Reply | Failure:
    """The answer, or a failure where its share of the time is over the limit."""
    if not isinstance(answer, Reply) or timeout is None or answer.seconds <= timeout:
        return answer
    reason = f"it answered after {answer.seconds:.1f} s; the time-out is {timeout:g} s"
    return Failure(answer.client, task, "late", reason)
