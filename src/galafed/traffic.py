"""Every byte that crosses the seam, counted by client, direction and task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from galafed.messages import Job, Reply
from galafed.model import kind_of, size_of

EVALUATION = "evaluate"
"""The task by which a model is tested."""


@dataclass(frozen=True)
class Transfer:
    """One payload: `summary` of its bytes are not a model's state (centroids, BatchNorm statistics)."""

    round: int
    client: str
    direction: Literal["down", "up"]
    task: str
    size: int
    summary: int = 0


class Traffic:
    """The ledger of a round: who received and sent how many bytes."""

    def __init__(self) -> None:
        self.transfers: list[Transfer] = []

    def clear(self) -> None:
        """Start a new round."""
        self.transfers = []

    def down(self, job: Job) -> None:
        """Count a payload to a client."""
        self.transfers.append(Transfer(job.round, job.client, "down", job.task.name, job.size))

    def up(self, job: Job, reply: Reply) -> None:
        """Count a reply."""
        summaries = {part: s for part, s in reply.parts.items() if kind_of(part) in ("centroids", "statistics")}
        self.transfers.append(Transfer(job.round, reply.client, "up", job.task.name, reply.size, size_of(summaries)))

    def totals(self, *, sources: Iterable[str], target: str) -> dict[str, int]:
        """Bytes of the busiest source, of the target and of the server, both directions; `evaluation` stands apart."""
        each: defaultdict[str, int] = defaultdict(int)
        for transfer in self.transfers:
            if transfer.task != EVALUATION:
                each[transfer.client] += transfer.size
        source = max((each[source] for source in sources), default=0)
        return {"source": source, "server": sum(each.values()), "target": each[target]}

    @property
    def evaluation(self) -> int:
        """Bytes that testing the model took: what is measured of a method, and no part of it."""
        return sum(transfer.size for transfer in self.transfers if transfer.task == EVALUATION)

    def by_client(self) -> dict[str, dict[str, int]]:
        """Bytes each client received (`down`) and sent (`up`)."""
        each: dict[str, dict[str, int]] = {}
        for transfer in self.transfers:
            each.setdefault(transfer.client, {"down": 0, "up": 0})[transfer.direction] += transfer.size
        return {client: each[client] for client in sorted(each)}

    def uncounted_in_paper(self, *, target: str) -> int:
        """Bytes the paper's communication table leaves out: the target's class centroids and head statistics."""
        return sum(transfer.summary for transfer in self.transfers if transfer.client == target)
