"""The engine's end of the line to Flower's server process: requests out, answers back, over a private socket.

The run itself stays in the process that the user started; what Flower runs on the server's side only passes bytes on.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from galafed.errors import QuorumError
from galafed.messages import Failure
from galafed.sites import frames

JOIN = 120.0
"""Seconds Flower has to start our server app."""
GRACE = 60.0
"""Seconds beyond a question's own time-out after which the server app is taken for dead."""

Arrived = Callable[[str, bytes | Failure], None]


class Runtime(Protocol):
    """Flower, started or found: it runs our app, and can tell what went wrong."""

    def submit(self, relay: Path) -> None:
        """Have Flower run the app, which will connect to the socket `relay`."""

    def trouble(self) -> str:
        """A sentence about a process of Flower's that has ended, or nothing."""

    def close(self) -> None:
        """End what was started."""


class Relay:
    """A transport: hands requests to Flower's server process, which is started at the first one."""

    def __init__(self, make: Callable[[], Runtime]) -> None:
        self._make = make
        self._runtime: Runtime | None = None
        self._connection: socket.socket | None = None

    def open(self) -> None:
        """Start what has to be started, so that no question's time is spent on it."""
        self._connected()

    def send(self, requests: Mapping[str, bytes], timeout: float | None, arrived: Arrived) -> None:
        """Send each site its request and hand on every answer; where Flower's server process dies, once more."""
        waiting = dict(requests)
        for _ in range(2):
            try:
                self._exchange(waiting, timeout or 0.0, arrived)
            except (OSError, EOFError, ValueError):
                self._hang_up()
            if not waiting:
                return
        for name in waiting:
            arrived(name, Failure(name, "", "lost", self._why()))

    def _exchange(self, waiting: dict[str, bytes], timeout: float, arrived: Arrived) -> None:
        """One conversation; a site leaves `waiting` when something is known of it."""
        connection = self._connected()
        bodies = list({id(request): request for request in waiting.values()}.values())  # a broadcast goes out once
        places = {
            name: next(k for k, body in enumerate(bodies) if body is request) for name, request in waiting.items()
        }
        connection.settimeout(timeout + GRACE if timeout else None)
        frames.send(connection, {"timeout": timeout, "sites": places}, bodies)
        while waiting:
            header, answer = frames.receive(connection)
            name = header.get("site")
            if isinstance(name, str) and waiting.pop(name, None) is not None:
                arrived(name, bytes(answer[0]) if answer else Failure(name, "", "lost", str(header.get("reason"))))

    def _connected(self) -> socket.socket:
        """The line to the server app; Flower is started and told to run the app where there is none."""
        if self._connection is None:
            if self._runtime is None:
                self._runtime = self._make()
            with tempfile.TemporaryDirectory(prefix="galafed-") as folder, socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(Path(folder) / "relay"))  # the folder is this user's alone
                listener.listen(1)
                self._runtime.submit(Path(folder) / "relay")
                self._connection = self._accepted(listener, self._runtime)
        return self._connection

    def _accepted(self, listener: socket.socket, runtime: Runtime) -> socket.socket:
        listener.settimeout(0.5)
        deadline = time.monotonic() + JOIN
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                return listener.accept()[0]
            if trouble := runtime.trouble():
                raise QuorumError(f"Flower did not start: {trouble}")
        raise QuorumError(f"Flower did not start our server app within {JOIN:g} s. {runtime.trouble()}")

    def _why(self) -> str:
        return (self._runtime and self._runtime.trouble()) or "Flower's server process went away"

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Hang up, which ends the app, and end Flower where it was started for this run."""
        self._hang_up()
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None
