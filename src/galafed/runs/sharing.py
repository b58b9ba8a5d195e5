"""The runs of a study, several at a time, shared with whoever else works on the same folder."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from galafed.bounds import at_least
from galafed.config import Run, resolve
from galafed.errors import DataError, GalafedError, SaveError
from galafed.report.words import duration
from galafed.runs.files import claimed, require_writable
from galafed.runs.folders import CONFIG, DONE
from galafed.runs.workers import ProcessLostError, held_back, shared_out


def carry_out(
    runs: Sequence[Run],
    work: Path,
    *,
    jobs: int,
    minutes: float,
    place: Mapping[str, Any],
    say: Callable[[str], None],
    finished: Callable[[Run], None] = lambda run: None,
) -> None:
    """Do runs, each in its folder, `jobs` at a time; none is begun after `minutes` (0: all are).

    A run that another process works on is left to that process. A run that fails stops no other; those that lacked
    memory or lost their GPU go on from their last checkpoints when the others are done, one at a time. An interruption
    stops all of them. `finished` is told of each run as soon as it is done.
    """
    at_least("jobs", jobs, 1)
    if not runs:
        return
    if str(place.get("device", "")).startswith("cuda"):
        from galafed.runs.assembly import pick_device  # needs torch

        pick_device(place["device"])  # a machine without a GPU is told once, not by every run
    require_writable(work)
    deadline = time.time() + 60 * minutes if minutes else float("inf")
    _, failed = _pass(runs, work, jobs, deadline, place, say, finished)
    if again := [run for run in runs if isinstance(failed.get(run.run_name), RuntimeError | ProcessLostError)]:
        say(f"{len(again)} runs that the GPU or memory has failed go on now, one at a time")
        done, still = _pass(again, work, 1, deadline, place, say, finished)
        # What there was no time to try again has failed all the same.
        failed = {name: error for name, error in (failed | still).items() if name not in done}
    if failed:
        name, error = next(iter(failed.items()))
        words = f"{len(failed)} of {len(runs)} runs failed, the first: {name}: {_first_line(error)}"
        raise GalafedError(words) from error


def _pass(
    runs: Sequence[Run],
    work: Path,
    jobs: int,
    deadline: float,
    place: Mapping[str, Any],
    say: Callable[[str], None],
    finished: Callable[[Run], None],
) -> tuple[set[str], dict[str, Exception]]:
    """Do runs `jobs` at a time; returns the names of those that were finished, and what failed, by name."""
    started = time.monotonic()
    done: set[str] = set()
    failed: dict[str, Exception] = {}
    calls = [partial(_do, placed(run, place), work / run.run_name, deadline, 1 / jobs) for run in runs]
    with contextlib.closing(shared_out(calls, jobs)) as answers:
        for number, answer in answers:
            name = runs[number].run_name
            if isinstance(answer, Exception):
                failed[name] = answer
                say(f"failed  {name}: {_first_line(answer)}")
            elif answer is not None:
                done.add(name)
                finished(runs[number])
                count = len(done)
                left = (time.monotonic() - started) / count * (len(runs) - count)
                say(f"{count}/{len(runs)}  {name}  {answer}  left {duration(left)}")
    return done, failed


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def placed(run: Run, place: Mapping[str, Any]) -> Run:
    """The run where it is to be done; one that cannot be done there is refused before any work."""
    return resolve({**run.to_dict(), **place})


def _do(run: Run, folder: Path, deadline: float, share: float) -> str | None:
    """One run from its start or its last checkpoint; nothing if it is too late or somebody else does it."""
    if time.time() > deadline:
        return None
    os.environ["OMP_NUM_THREADS"] = str(run.threads)
    with held_back():  # a library that is half imported may swallow an interruption
        from galafed.runs.runner import resume, start  # needs torch
        from galafed.stacking.memory import hold_to

    hold_to(share)

    with _claimed(folder) as mine:
        if not mine or (folder / DONE).exists():
            return None
        exists = (folder / CONFIG).exists()
        if not exists and folder.is_dir() and any(folder.iterdir()):
            raise DataError(f"{folder}: holds files but no run that could be gone on with; move it away or remove it")
        result = resume(folder) if exists else start(run, folder)
    return "no test labels" if result.accuracy is None else f"{100 * result.accuracy:.1f} %"


@contextlib.contextmanager
def _claimed(folder: Path) -> Iterator[bool]:
    """Claim a run by a lock beside its folder; the claim goes with the process, however it ends."""
    with contextlib.ExitStack() as stack:
        try:
            mine = stack.enter_context(claimed(folder.parent / f"{folder.name}.lock"))
        except OSError as error:
            raise SaveError(
                f"{folder.parent}: runs cannot be shared out here, for the file system has no locks "
                f"({error.strerror}); name a folder on another one with --work"
            ) from None
        yield mine
