"""Flower's programs as child processes that never outlive the one who started them."""

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

ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_WAIT_POLICY": "passive",
}
"""Nothing is reported to anybody, nothing is installed on the way, and a waiting task is seen at once."""


def environment(home: Path) -> dict[str, str]:
    """What Flower's programs see: they find each other by name, and keep their files under `home`."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return os.environ | ENVIRONMENT | {"PATH": path, "FLWR_HOME": str(home)}


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
        """Start a program of Flower's."""
        with (self.logs / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(  # noqa: S603 - our own command
                [str(BIN / str(command[0])), *map(str, command[1:])],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",  # a module in the user's folder must not shadow one of Flower's
                process_group=self._keeper.pid,
            )

    def trouble(self) -> str:
        """The first process that has ended, with the end of its log."""
        for name, process in self.running.items():
            if process.poll() is not None:
                said = (self.logs / f"{name}.log").read_text(errors="replace").strip().splitlines()[-3:]
                return f"{name} ended with exit code {process.returncode}: {' '.join(said)}"
        return ""

    def close(self) -> None:
        """End them all: ask, wait a little, kill."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._keeper.pid, signal.SIGTERM)
        deadline = time.monotonic() + 5
        for process in self.running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._keeper.pid, signal.SIGKILL)
        for process in (*self.running.values(), self._keeper):
            process.wait()
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()


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
