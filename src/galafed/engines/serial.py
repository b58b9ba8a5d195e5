"""The reference engine: one client after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from galafed.engines.base import engines
from galafed.federation import Engine
from galafed.messages import Failure, Job, Reply
from galafed.model import State

if TYPE_CHECKING:
    from galafed.client import Client
    from galafed.config import Run
    from galafed.loops import Bench, Images


@engines.register("serial")
class Serial(Engine):
    """Same seed, same bits on a CPU; every other engine is held against it."""

    name: ClassVar[str]
    summary: ClassVar[str] = "one client after the other in this process; the reference"

    def __init__(self, *, bench: Bench, data: Mapping[str, Images], seed: int, config: Run | None = None) -> None:
        from galafed.client import Client  # needs torch, which listing the engines does not

        self.bench = bench
        self._seed = seed
        self.clients: dict[str, Client] = {name: Client(name, d.to(bench.device)) for name, d in data.items()}

    def dispatch(
        self, jobs: Sequence[Job], timeout: float | None, progress: Callable[[int], None]
    ) -> list[Reply | Failure]:
        answers: list[Reply | Failure] = []
        for job in jobs:
            answer = self.clients[job.client].execute(job, self.bench, self._seed)
            if isinstance(answer, Reply) and timeout is not None and answer.seconds > timeout:
                reason = f"it answered after {answer.seconds:.1f} s; the time-out is {timeout:g} s"
                answer = Failure(job.client, job.task.name, "late", reason)
            answers.append(answer)
            progress(len(answers))
        return answers

    def client_states(self) -> dict[str, dict[str, State]]:
        return {name: dict(client.memory.run) for name, client in self.clients.items() if client.memory.run}

    def restore_clients(self, states: Mapping[str, Mapping[str, State]]) -> None:
        for name, kept in states.items():
            self.clients[name].memory.run = {
                part: {key: value.to(self.bench.device) for key, value in state.items()} for part, state in kept.items()
            }
