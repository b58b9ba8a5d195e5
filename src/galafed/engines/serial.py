"""The reference engine: one client after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from galafed.allocation import keep_for_the_next_step
from galafed.engines.base import InThisProcess, engines, in_time
from galafed.messages import Failure, Job, Reply

if TYPE_CHECKING:
    from galafed.client import Client
    from galafed.config import Run
    from galafed.loops import Bench, Images


@engines.register("serial")
class Serial(InThisProcess):
    """Same seed, same bits on a CPU; every other engine is held against it."""

    name: ClassVar[str]
    summary: ClassVar[str] = "one client after the other in this process; the reference"

    def __init__(self, *, bench: Bench, data: Mapping[str, Images], seed: int, config: Run | None = None) -> None:
        from galafed.client import Client  # needs torch, which listing the engines does not

        if bench.device.type == "cpu":
            keep_for_the_next_step(workers=1)
        self.bench = bench
        self._seed = seed
        self.clients: dict[str, Client] = {name: Client(name, d.to(bench.device)) for name, d in data.items()}

    def dispatch(
        self, jobs: Sequence[Job], timeout: float | None, progress: Callable[[int], None]
    ) -> list[Reply | Failure]:
        answers: list[Reply | Failure] = []
        for job in jobs:
            answer = self.clients[job.client].execute(job, self.bench, self._seed)
            answers.append(in_time(answer, job.task.name, timeout))
            progress(len(answers))
        return answers
