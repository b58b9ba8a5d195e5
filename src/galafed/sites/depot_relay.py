"""A relay for small messages, beside which large payloads have a line of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, cast

from galafed.messages import Failure
from galafed.sites.depot import Depot
from galafed.sites.parcel import LARGE, SMALL, unwrap, wrap
from galafed.sites.relay import Arrived, Relay, Runtime


class RuntimeWithDepot(Runtime, Protocol):
    """A runtime in whose process sites fetch and leave what is large."""

    depot: Depot


class Question:
    """One question: the small messages that are sent, and the answers to be had for what comes back."""

    def __init__(self, depot: Depot, requests: Mapping[str, bytes], largest: int) -> None:
        self._depot = depot
        self._token = depot.question(largest)
        table = {"port": depot.port, "question": self._token}
        bodies = {id(request): request for request in requests.values()}  # a broadcast is kept once
        self._offered = {key: depot.offer(body) for key, body in bodies.items() if len(body) > LARGE}
        wrapped = {
            key: wrap(table | {"get": self._offered[key]}) if key in self._offered else wrap(table, body)
            for key, body in bodies.items()
        }
        self.messages = {name: wrapped[id(request)] for name, request in requests.items()}

    def answer(self, name: str, content: bytes | Path | Failure) -> bytes | Path | Failure:
        """An answer out of its parcel, or from where the site has left it."""
        if not isinstance(content, bytes):
            return content
        try:
            table, body = unwrap(content)
        except ValueError:
            return Failure(name, "", "invalid", "its answer is no message of ours")
        if reason := self._depot.refused(self._token, name):
            return Failure(name, "", "invalid", reason)
        if "trouble" in table:
            return Failure(name, "", "lost", str(table["trouble"]))
        if not table.get("left"):
            return body
        left = self._depot.take(self._token, name)
        return left or Failure(name, "", "lost", "it says that it has left its answer, and has not")

    def end(self) -> None:
        """Nothing of it is kept or accepted any longer."""
        self._depot.end(self._token, list(self._offered.values()))


class DepotRelay(Relay):
    """Sends what is small itself and has the depot of its runtime hand out and take in what is large."""

    def send(self, requests: Mapping[str, bytes], timeout: float | None, arrived: Arrived, largest: int) -> None:
        """As any relay; large answers are files."""
        self.open()
        question = Question(cast(RuntimeWithDepot, self._runtime).depot, requests, largest)
        try:
            self._put(question, timeout, arrived)
        finally:
            question.end()

    def _put(self, question: Question, timeout: float | None, arrived: Arrived) -> None:
        self._pass_on(question, question.messages, timeout, arrived)

    def _pass_on(
        self, question: Question, messages: Mapping[str, bytes], timeout: float | None, arrived: Arrived
    ) -> None:
        """Send some messages of a question and hand on the answers."""
        super().send(messages, timeout, lambda name, content: arrived(name, question.answer(name, content)), SMALL)
