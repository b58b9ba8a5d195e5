"""Calls in processes of their own: what they return and raise, and what becomes of a process that failed."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

from galafed.errors import DataError
from galafed.runs.workers import CallError, ProcessLostError, shared_out


class NeedsTwo(Exception):
    """Cannot be made again from its text alone, nor be sent."""

    def __init__(self, one: str, other: object) -> None:
        super().__init__(one)
        self.other = other


def number_of_process(folder: Path, ending: str = "") -> int:
    """Tells who did it, by a file too, and ends as it is told."""
    (folder / f"{len(list(folder.iterdir()))}").write_text(str(os.getpid()))
    if ending == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "odd":
        raise NeedsTwo("cannot be sent", lambda: None)
    if ending == "lost GPU":
        raise RuntimeError("CUDA error\nSearch for it in the manual")
    if ending == "full":
        raise MemoryError("Unable to allocate 9. GiB")
    if ending == "ours":
        raise DataError("no images")
    return os.getpid()


def test_what_is_raised_arrives_and_its_process_is_not_used_again(tmp_path: Path) -> None:
    endings = ("", "", "odd", "", "lost GPU", "full", "ours", "killed", "")
    calls = [partial(number_of_process, tmp_path, ending) for ending in endings]
    answers = dict(shared_out(calls, 1))
    processes = [int(path.read_text()) for path in sorted(tmp_path.iterdir())]
    assert len(processes) == len(calls)
    for place, ending in enumerate(endings[:-1]):
        assert (processes[place] == processes[place + 1]) == (ending == ""), ending
    assert [answers[place] for place, ending in enumerate(endings) if not ending] == [
        processes[place] for place, ending in enumerate(endings) if not ending
    ]
    odd, lost, ours, killed = (answers[endings.index(ending)] for ending in ("odd", "lost GPU", "ours", "killed"))
    assert (type(odd), str(odd)) == (CallError, "NeedsTwo: cannot be sent")
    assert (type(lost), str(lost).partition("\n")[0]) == (RuntimeError, "CUDA error")
    full = answers[endings.index("full")]  # it is tried again when it is alone, as what lost its GPU is
    assert (type(full), str(full)) == (RuntimeError, "Unable to allocate 9. GiB")
    assert (type(ours), str(ours)) == (DataError, "no images")
    assert isinstance(killed, ProcessLostError)
    assert "out of memory" in str(killed)
    assert "in number_of_process" in odd.__notes__[0]
