"""The resident worker of a Flower node: started on demand, warm, alone with its user, gone with its node."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from galafed.flower import resident
from galafed.flower.resident import WorkerError, ask, socket_of
from galafed.sites import frames

ECHO = """
import os, sys, time
from pathlib import Path
from galafed.flower.worker import serve

def make(site):
    if site == "broken":
        raise RuntimeError("no such site")
    def handle(request):
        if request == b"die" and not Path(sys.argv[4]).exists():
            Path(sys.argv[4]).touch()
            os._exit(9)
        if request == b"always die":
            os._exit(9)
        return f"{os.getpid()} {site} ".encode() + request
    return handle

serve(Path(sys.argv[1]), make, parent=int(sys.argv[2]), idle=float(sys.argv[3]))
"""


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bytes]:
    """A node with a worker that echoes; pytest's parent stands for the process that starts Flower's clients."""
    monkeypatch.setattr("tempfile.tempdir", "/tmp")  # noqa: S108 - a socket's path is short
    node = str(tmp_path)
    program = tmp_path / "echo.py"
    # The worker is given its socket, its parent and its idle time; here also a file.
    program.write_text(ECHO.replace("sys.argv[4]", repr(str(tmp_path / "died"))))

    def ask_it(request: bytes, site: str = "hand") -> bytes:
        return ask(node, site, request, program=(sys.executable, str(program)))

    ask_it.node = node  # type: ignore[attr-defined]
    yield ask_it
    stop(node)


def stop(node: str) -> None:
    for pid in workers(node):
        os.kill(pid, signal.SIGKILL)
    for file in (folder := socket_of(node).parent).iterdir():
        file.unlink()
    folder.rmdir()


def workers(node: str) -> list[int]:
    """The processes that have the socket of a node in their command."""
    found = subprocess.run(["pgrep", "-f", str(socket_of(node))], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def test_a_worker_stays_between_questions_and_holds_several_sites(asking: Callable[..., bytes]) -> None:
    first, second = asking(b"a" * 3_000_000), asking(b"b", "type")
    pid, site, echo = first.split(b" ", 2)
    assert (site, echo) == (b"hand", b"a" * 3_000_000)
    assert second == pid + b" type b"
    assert workers(asking.node) == [int(pid)]


def test_a_killed_worker_is_started_again(asking: Callable[..., bytes]) -> None:
    before = int(asking(b"x").split()[0])
    os.kill(before, signal.SIGKILL)
    assert int(asking(b"x").split()[0]) != before
    assert asking(b"die").endswith(b"hand die"), "killed in the middle of a question, it is asked again"
    with pytest.raises(WorkerError, match="died twice"):
        asking(b"always die")
    assert asking(b"x"), "and the next question finds a worker"


def test_what_goes_wrong_is_told_and_the_worker_lives_on(asking: Callable[..., bytes]) -> None:
    pid = asking(b"x").split()[0]
    with pytest.raises(WorkerError, match="RuntimeError: no such site"):
        asking(b"x", "broken")
    for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 8, b"\x02\0\0\0\0\0\0\0[]", b"\x02\0\0\0\0\0\0\0{}"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(socket_of(asking.node)))
            connection.sendall(noise)
    assert asking(b"x").split()[0] == pid


def test_nobody_else_can_reach_it(
    asking: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asking(b"x")
    path = socket_of(asking.node)
    for folder in (path.parent, path.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (tmp_path / f"galafed-{os.getuid()}").mkdir()
    (tmp_path / f"galafed-{os.getuid()}").chmod(0o777)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("tempfile.tempdir", str(tmp_path))
        with pytest.raises(WorkerError, match="mode 0700"):
            socket_of("n")


def test_it_ends_when_nobody_asks(asking: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "IDLE", 0.3)
    pid = int(asking(b"x").split()[0])
    gone(pid)
    assert not (socket_of(asking.node)).exists()


def test_it_ends_with_its_node_even_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/tmp")  # noqa: S108 - a socket's path is short
    program = tmp_path / "slow.py"
    program.write_text(ECHO.replace("return f", "time.sleep(600); return f").replace("sys.argv[4]", "'/'"))
    client = "import sys; from galafed.flower.resident import ask; ask(sys.argv[1], 'hand', b'x', program=sys.argv[2:])"
    # A shell in between plays the process that starts a client for each message.
    command = [sys.executable, "-c", client, str(tmp_path), sys.executable, str(program)]
    node = subprocess.Popen(["bash", "-c", '"$@" & wait', "node", *command], process_group=0)
    try:
        deadline = time.monotonic() + 30
        while not socket_of(str(tmp_path)).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        (worker,) = [pid for pid in workers(str(tmp_path)) if pid != node.pid]
        (asker,) = children(node.pid)
        node.kill()
        gone(worker)
        gone(asker)  # which starts no other worker: it would outlive the node
        assert not socket_of(str(tmp_path)).exists()
        assert workers(str(tmp_path)) == []
    finally:
        os.killpg(node.pid, signal.SIGKILL)
        node.wait()
        stop(str(tmp_path))


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(child) for child in found.stdout.split()]


def gone(pid: int) -> None:
    """Wait for the end of a process; a zombie has ended."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(0.05)
    raise AssertionError(f"{pid} is still there")


def test_frames_are_whole_or_refused() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frames.send(ours, {"site": "hand"}, [b"", b"abc"])
        assert frames.receive(theirs) == ({"site": "hand"}, [b"", b"abc"])
        ours.sendall(b'\x09\0\0\0\0\0\0\0{"sizes":')
        ours.close()
        with pytest.raises(ValueError, match="Expecting value"):
            frames.receive(theirs)
        with pytest.raises(EOFError):
            frames.receive(theirs)
