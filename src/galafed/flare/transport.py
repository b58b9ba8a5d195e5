"""The engine's transport: small messages through FLARE's job, large payloads beside it, and sites taken back in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from galafed.flare.depot import LARGE
from galafed.flare.parcel import unwrap, wrap
from galafed.flare.runtime import Coordinator
from galafed.messages import Failure
from galafed.sites.relay import Arrived, Relay

SMALL = 2 * LARGE
"""Bytes of the largest message that FLARE carries for us."""


class FlareRelay(Relay):
    """A relay that has the job started anew when a site that fell silent is connected: it was started again.

    FLARE never takes a site back into a running job.
    """

    def __init__(self, make: Callable[[], Coordinator]) -> None:
        super().__init__(make, "FLARE")
        self._missed: frozenset[str] = frozenset()

    def send(self, requests: Mapping[str, bytes], timeout: float | None, arrived: Arrived, largest: int) -> None:
        """As any relay; a site that is silent for the second time and yet connected is asked in a new job."""
        self.open()
        coordinator = self._runtime
        if not isinstance(coordinator, Coordinator):
            raise TypeError("a relay of FLARE needs its coordinator")
        depot = coordinator.depot
        question = depot.question(largest)
        table = {"port": depot.port, "question": question}
        bodies = {id(request): request for request in requests.values()}  # a broadcast is kept once
        offered = {key: depot.offer(body) for key, body in bodies.items() if len(body) > LARGE}
        wrapped = {
            key: wrap(table | {"get": offered[key]}) if key in offered else wrap(table, body)
            for key, body in bodies.items()
        }
        failures: dict[str, Failure] = {}

        def told(name: str, content: bytes | Path | Failure) -> None:
            answer = self._opened(coordinator, question, name, content)
            if isinstance(answer, Failure):
                failures[name] = answer
            else:
                arrived(name, answer)

        try:
            messages = {name: wrapped[id(request)] for name, request in requests.items()}
            super().send(messages, timeout, told, SMALL)
            again = failures.keys() & self._missed
            self._missed = (self._missed - requests.keys()) | failures.keys()
            if again and (back := coordinator.connected(frozenset(again))):
                self._hang_up()
                for name in back:
                    del failures[name]
                super().send({name: messages[name] for name in back}, timeout, told, SMALL)
                self._missed = self._missed - (back - failures.keys())
        finally:
            depot.end(question, list(offered.values()))
        for name, failure in failures.items():
            arrived(name, failure)

    def _opened(
        self, coordinator: Coordinator, question: str, name: str, content: bytes | Path | Failure
    ) -> bytes | Path | Failure:
        """An answer out of its parcel, or from where the site has left it."""
        if not isinstance(content, bytes):
            return content
        try:
            table, body = unwrap(content)
        except ValueError:
            return Failure(name, "", "invalid", "its answer is no message of ours")
        if reason := coordinator.depot.refused(question, name):
            return Failure(name, "", "invalid", reason)
        if "trouble" in table:
            return Failure(name, "", "lost", str(table["trouble"]))
        if not table.get("left"):
            return body
        left = coordinator.depot.take(question, name)
        return left or Failure(name, "", "lost", "it says that it has left its answer, and has not")
