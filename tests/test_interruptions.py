"""`gala reproduce` ended by real signals: nothing more is begun, what is done is kept, and nobody is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from galafed.runs import archive
from galafed.runs import checkpoint as checkpoints

PROGRAM = Path(__file__).with_name("endless_study.py")
INTERRUPTED = "what was finished is kept, and the same command goes on where it was: gala reproduce"


class Command:
    """`gala reproduce endless after` in a process group of its own, as a terminal starts it."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), "reproduce", "endless", "after", "--jobs", str(jobs)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            process_group=0,
            env=os.environ | {"COLUMNS": "200"},
        )

    def begun(self) -> dict[str, int]:
        """The whole rounds of every run that was begun, by its seed."""
        found = (self.folder / "runs").glob("*/metrics.jsonl")
        return {path.parent.name.split("-")[3]: len(path.read_text().splitlines()) for path in found}

    def wait_until(self, reached: Callable[[], bool]) -> None:
        """Until something is seen, for as long as a slow machine may take."""
        deadline = time.monotonic() + 120
        while not reached():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def members(self, program: bytes = b"") -> list[int]:
        """Who of the group is alive, of those whose command line has this in it."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # gone meanwhile
                state, _, group, *_ = (process / "stat").read_text().rpartition(")")[2].split()
                if int(group) == self.process.pid and state != "Z" and program in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
        return found

    def ended(self) -> str:
        """What it has said, when it is gone with all its processes."""
        said, _ = self.process.communicate(timeout=120)
        self.wait_until(lambda: not self.members())
        return said


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[int], Command]]:
    commands: list[Command] = []

    def started(jobs: int) -> Command:
        commands.append(Command(tmp_path, jobs))
        return commands[-1]

    yield started
    for command in commands:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(command.process.pid, signal.SIGKILL)
        command.process.communicate()


def in_the_middle(command: Command, jobs: int) -> None:
    """The first run is done, and as many others as may be are at it."""
    command.wait_until(lambda: sum(rounds > 1 for rounds in command.begun().values()) == jobs)
    assert len(command.begun()) == jobs + 1


def interrupt(command: Command) -> None:
    """What a terminal does on Ctrl-C: all processes get the signal."""
    os.killpg(command.process.pid, signal.SIGINT)


def terminate(command: Command) -> None:
    """What a scheduler does: one process gets the signal."""
    command.process.terminate()


def terminate_twice(command: Command) -> None:
    """What `timeout` does."""
    command.process.terminate()
    os.killpg(command.process.pid, signal.SIGTERM)


@pytest.mark.parametrize(("end", "jobs"), [(interrupt, 1), (terminate, 2), (terminate_twice, 1)])
def test_one_interruption_ends_it_and_what_was_finished_is_kept(
    end: Callable[[Command], None], jobs: int, start: Callable[[int], Command], tmp_path: Path
) -> None:
    command = start(jobs)
    in_the_middle(command, jobs)
    before = set(command.begun())
    end(command)
    said = command.ended()
    assert command.process.returncode == 130, said
    assert "Traceback" not in said
    assert said.count("interrupted") == 1
    assert said.splitlines()[-1].startswith("gala: interrupted; ")
    assert f"{INTERRUPTED} endless after --jobs {jobs}" in said
    assert set(command.begun()) == before
    assert len(archive.read(tmp_path / "results" / "endless")) == 1
    for study in ("endless", "after"):
        assert (tmp_path / "results" / study / "table.md").read_text() == "1 runs"
    for folder in (tmp_path / "runs").glob("*/"):
        newest, damaged = checkpoints.newest_valid(folder)
        assert newest.rounds_done >= 1
        assert damaged == []


def test_a_signal_while_processes_start_ends_it(start: Callable[[int], Command]) -> None:
    command = start(2)
    command.wait_until(lambda: bool(command.members(b"spawn_main")))
    interrupt(command)
    said = command.ended()
    assert (command.process.returncode, "Traceback" in said) == (130, False), said
    assert command.begun() == {}


def test_a_second_signal_ends_those_that_do_not_stop(start: Callable[[int], Command]) -> None:
    command = start(1)
    command.wait_until(lambda: bool(command.begun()))
    (worker,) = command.members(b"spawn_main")
    os.kill(worker, signal.SIGSTOP)  # as good as stuck
    command.process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        command.process.wait(1.5)
    command.process.send_signal(signal.SIGINT)
    assert INTERRUPTED in command.ended()
    assert command.process.returncode == 130


def test_nobody_is_left_when_the_command_is_killed_and_what_was_finished_is_in_the_results(
    start: Callable[[int], Command], tmp_path: Path
) -> None:
    command = start(2)
    in_the_middle(command, 2)
    command.wait_until((tmp_path / "results" / "endless" / archive.FILE).exists)
    before = set(command.begun())
    command.process.kill()
    command.ended()
    assert set(command.begun()) == before
    assert len(archive.read(tmp_path / "results" / "endless")) == 1
