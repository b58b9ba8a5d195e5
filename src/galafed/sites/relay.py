"""The engine's end of the line to a server process of Flower or FLARE: requests out, answers back, a private socket.

The run itself stays in the process that the user started; what runs on the server's side only passes bytes on.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from galafed.errors import QuorumError
from galafed.messages import Failure
from galafed.sites import frames

JOIN = 60.0
"""Seconds a runtime has to start our server app, the first time; then twice as long, and so on."""
GRACE = 60.0
"""Seconds beyond a question's own time-out after which the server app is taken for dead."""

ATTEMPTS = 3
"""How often a question is put to a server process that dies over it, and how often that is started."""

Arrived = Callable[[str, bytes | Path | Failure], None]


class Runtime(Protocol):
    """Flower or FLARE, started or found: it runs our app, and can tell what went wrong."""

    def submit(self, relay: Path) -> None:
        """Have our app run, which will connect to the socket `relay`, instead of one that was submitted before."""

    def ended(self) -> bool:
        """Whether the app that was submitted last is known to have ended."""

    def trouble(self) -> str:
        """A sentence about a process that has ended, or nothing."""

    def close(self) -> None:
        """End what was started."""


class Relay:
    """A transport: hands requests to the server process of `what`, which is started at the first one."""

    def __init__(self, make: Callable[[], Runtime], what: str = "Flower") -> None:
        self._make = make
        self._what = what
        self._runtime: Runtime | None = None
        self._connection: socket.socket | None = None
        self.delayed = 0.0
        """Seconds spent on starting things, which no site is to blame for."""

    def open(self) -> None:
        """Start what has to be started, so that no question's time is spent on it."""
        self._connected()

    def send(self, requests: Mapping[str, bytes], timeout: float | None, arrived: Arrived, largest: int) -> None:
        """Send each site its request and hand on every answer; where the server process dies, it is started again."""
        waiting = dict(requests)
        for _ in range(ATTEMPTS):
            try:
                self._exchange(waiting, timeout or 0.0, arrived, largest)
            except (OSError, EOFError, ValueError):
                self._hang_up()
            if not waiting:
                return
        for name in waiting:
            arrived(name, Failure(name, "", "lost", self._why()))

    def _exchange(self, waiting: dict[str, bytes], timeout: float, arrived: Arrived, largest: int) -> None:
        """One conversation; a site leaves `waiting` when something is known of it."""
        connection = self._connected()
        bodies = list({id(request): request for request in waiting.values()}.values())  # a broadcast goes out once
        place = {id(body): number for number, body in enumerate(bodies)}
        places = {name: place[id(request)] for name, request in waiting.items()}
        connection.settimeout(timeout + GRACE if timeout else None)
        frames.send(connection, {"timeout": timeout, "sites": places, "largest": largest}, bodies)
        while waiting:
            header, answer = frames.receive(connection, largest)
            name = header.get("site")
            if isinstance(name, str) and waiting.pop(name, None) is not None:
                arrived(name, _content(name, header, answer))

    def _connected(self) -> socket.socket:
        """The line to the server app; where there is none, the app is started, and its runtime before it."""
        if self._connection is None:
            started = time.monotonic()
            if self._runtime is None:
                self._runtime = self._make()
            with tempfile.TemporaryDirectory(prefix="galafed-") as folder, socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(Path(folder) / "relay"))  # the folder is this user's alone
                listener.listen(1)
                self._connection = self._started(listener, self._runtime, Path(folder) / "relay")
            self.delayed += time.monotonic() - started
        return self._connection

    def _started(self, listener: socket.socket, runtime: Runtime, relay: Path) -> socket.socket:
        """The server app on the line; one that ended before it got there, for a site died, is started again."""
        patience = [JOIN * 2**attempt for attempt in range(ATTEMPTS)]
        for seconds in patience:
            runtime.submit(relay)
            if connection := self._accepted(listener, runtime, seconds):
                return connection
        tried = f"in {ATTEMPTS} times, {sum(patience):g} s at most"
        raise QuorumError(f"{self._what} did not start our server app {tried}; go on with 'gala resume'")

    def _accepted(self, listener: socket.socket, runtime: Runtime, seconds: float) -> socket.socket | None:
        """The server app on the line, or nothing where it has ended or does not come."""
        listener.settimeout(0.5)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not runtime.ended():
            with contextlib.suppress(TimeoutError):
                return listener.accept()[0]
            if trouble := runtime.trouble():
                raise QuorumError(f"{self._what} did not start: {trouble}")
        return None

    def _why(self) -> str:
        return (self._runtime and self._runtime.trouble()) or (
            f"the server process of {self._what} gave up over its question, {ATTEMPTS} times"
        )

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Hang up, which ends the app, and end what was started for this run."""
        self._hang_up()
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None


def too_large(size: int, largest: int) -> str:
    """What is said of an answer that is not taken in for its size, or nothing."""
    return f"its answer has {size} bytes; at most {largest} are accepted" if size > largest else ""


def _content(name: str, header: Mapping[str, Any], answer: Sequence[bytearray]) -> bytes | Path | Failure:
    """An answer as it came: in a file, in the message, or not at all."""
    if isinstance(file := header.get("file"), str):
        return Path(file)
    if answer:
        return bytes(answer[0])
    return Failure(name, "", str(header.get("kind", "lost")), str(header.get("reason")))
