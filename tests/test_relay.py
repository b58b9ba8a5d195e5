"""The line to a server app that a runtime starts: what happens where the app ends before it is on the line."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from galafed.errors import QuorumError
from galafed.sites import frames, relay
from galafed.sites.relay import ATTEMPTS, Relay


class Fragile:
    """A runtime whose first apps end before they are on the line; the next one answers every question with itself."""

    def __init__(self, ends: int) -> None:
        self.submitted, self._ends = 0, ends

    def submit(self, path: Path) -> None:
        self.submitted += 1
        if not self.ended():
            threading.Thread(target=self._echo, args=(path,), daemon=True).start()

    def ended(self) -> bool:
        return self.submitted <= self._ends

    def trouble(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing to close."""

    @staticmethod
    def _echo(path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(path))
            header, bodies = frames.receive(line)
            for name, place in header["sites"].items():
                frames.send(line, {"site": name}, [bodies[place]])
            line.recv(1)


def asked(runtime: Fragile) -> dict[str, object]:
    found: dict[str, object] = {}
    made = Relay(lambda: runtime, "FLARE")
    try:
        made.send({"a": b"one", "b": b"two"}, 5.0, found.__setitem__, 100)
    finally:
        made.close()
    return found


def test_an_app_that_ends_before_it_is_on_the_line_is_started_again() -> None:
    runtime = Fragile(ends=2)
    assert asked(runtime) == {"a": b"one", "b": b"two"}
    assert runtime.submitted == 3


def test_an_app_that_never_starts_ends_the_run_so_that_it_can_be_resumed() -> None:
    runtime = Fragile(ends=100)
    with pytest.raises(QuorumError, match="gala resume"):
        asked(runtime)
    assert runtime.submitted == ATTEMPTS


def test_a_runtime_that_says_nothing_is_asked_again_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "JOIN", 0.2)
    runtime = Fragile(ends=100)
    monkeypatch.setattr(runtime, "ended", lambda: False)
    monkeypatch.setattr(runtime, "_echo", lambda path: None)
    with pytest.raises(QuorumError, match="3 times"):
        asked(runtime)
    assert runtime.submitted == ATTEMPTS
