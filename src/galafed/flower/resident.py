"""Asking the worker of a node; one is started where there is none, or where it was killed."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from galafed.sites import frames

IDLE = 900.0
"""Seconds without a question after which a worker ends."""
START = 120.0
"""Seconds in which a worker must come up."""

_started: list[subprocess.Popen[bytes]] = []
"""Workers outlive the process that starts them; Python would complain of one that it forgets."""


class WorkerError(Exception):
    """The worker cannot be started, or did not answer."""


def ask(node: str, site: str, request: frames.Bytes, *, program: Sequence[str] = ()) -> bytes:
    """The answer of a site to a request, from the worker of a node; a worker that died is started again, once."""
    starter = os.getppid()
    try:
        return _ask(socket_of(node), site, request, program)
    except (OSError, EOFError):
        if os.getppid() != starter:  # a worker started now would outlive its node
            raise WorkerError("the process that started this client has ended, and the worker with it") from None
        path = socket_of(node)
        path.unlink(missing_ok=True)
    try:
        return _ask(path, site, request, program)
    except (OSError, EOFError) as error:
        raise WorkerError(f"the worker died twice at this request ({error}); see {log_of(path)}") from error


def _ask(path: Path, site: str, request: frames.Bytes, program: Sequence[str]) -> bytes:
    with _connected(path, program) as connection:
        frames.send(connection, {"site": site}, [request])
        header, bodies = frames.receive(connection)
    if "error" in header:
        raise WorkerError(str(header["error"]))
    return bytes(bodies[0])


def private_folder() -> Path:
    """A folder with a short path that belongs to this user alone."""
    folder = Path(tempfile.gettempdir()) / f"galafed-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) != 0o700:
        raise WorkerError(f"{folder} must be a folder of this user with mode 0700: remove it")
    return folder


def socket_of(node: str) -> Path:
    """Where the worker of a node listens, in a folder of its own."""
    folder = private_folder() / f"worker-{hashlib.sha256(node.encode()).hexdigest()[:24]}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / "socket"


def log_of(path: Path) -> Path:
    """Where a worker's words go."""
    return path.with_name("log")


@contextlib.contextmanager
def _connected(path: Path, program: Sequence[str]) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
        except OSError:
            _start(path, program)
            connection.connect(str(path))
        yield connection


def _start(path: Path, program: Sequence[str]) -> None:
    """Start a worker unless another process just did."""
    with path.with_name("lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.connect(str(path))
            return
        path.unlink(missing_ok=True)
        program = program or (sys.executable, "-m", "galafed.flower.worker")
        command = [*program, str(path), str(os.getppid()), str(IDLE)]
        with log_of(path).open("ab") as log:
            worker = subprocess.Popen(  # noqa: S603 - our own program
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
            )
        _started.append(worker)
        deadline = time.monotonic() + START
        while not path.exists():
            if worker.poll() is not None:
                raise WorkerError(f"the worker ended at once (exit code {worker.returncode}); see {log_of(path)}")
            if time.monotonic() > deadline:
                worker.kill()
                raise WorkerError(f"the worker did not come up within {START:g} s; see {log_of(path)}")
            time.sleep(0.02)
