"""Programs of Flower or FLARE as child processes that never outlive the one who started them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

BIN = Path(sys.executable).parent

GRACE = 8.0
"""Seconds between asking processes to end and killing them; Ray takes a few."""


class Processes:
    """Child processes in a group of their own, each with its log."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "galafed.sites.keeper"], stdin=subprocess.PIPE, process_group=0, cwd="/"
        )

    def start(self, name: str, command: Sequence[str | Path | int], env: Mapping[str, str]) -> None:
        """Start a program that is installed beside this one."""
        with (self.logs / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(  # noqa: S603 - our own command
                [str(BIN / str(command[0])), *map(str, command[1:])],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",  # a module in the user's folder must not shadow one of theirs
                process_group=self._keeper.pid,
            )

    def trouble(self, only: str = "") -> str:
        """The first process that has ended, of all or of this name, with the end of its log."""
        for name, process in self.running.items():
            if only in ("", name) and process.poll() is not None:
                said = (self.logs / f"{name}.log").read_text(errors="replace").strip().splitlines()[-3:]
                return f"{name} ended with exit code {process.returncode}: {' '.join(said)}"
        return ""

    def close(self) -> None:
        """End them all with what they started themselves: wait for the app, which was told to end, ask, wait, kill."""
        roots = {process.pid for process in self.running.values()}
        family = _family(roots)
        self._wait_for({pid: start for pid, start in family.items() if pid not in roots | _children(roots)})
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._keeper.pid, signal.SIGTERM)
        self._wait_for(family)
        for pid in _alive(family):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._keeper.pid, signal.SIGKILL)
        for process in (*self.running.values(), self._keeper):
            process.wait()
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()

    def _wait_for(self, family: Mapping[int, str]) -> None:
        deadline = time.monotonic() + GRACE
        while _alive(family) and time.monotonic() < deadline:
            for process in self.running.values():
                process.poll()
            time.sleep(0.05)


def _children(of: set[int]) -> set[int]:
    found = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
    return {pid for pid in found if _parent_and_start(pid)[0] in of}


def _family(roots: set[int]) -> dict[int, str]:
    """These processes and all that descend from them, each with the time it was started: a number may be used again."""
    found = set(roots)
    while new := _children(found) - found:
        found |= new
    return {pid: _parent_and_start(pid)[1] for pid in found}


def _alive(family: Mapping[int, str]) -> list[int]:
    return [pid for pid, start in family.items() if start and _parent_and_start(pid)[1] == start]


def _parent_and_start(pid: int) -> tuple[int, str]:
    """Of a process that is not yet dead; a dead one has no parent and was never started."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, ""
    return (0, "") if fields[0] == "Z" else (int(fields[1]), fields[19])


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(host: str, port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True
