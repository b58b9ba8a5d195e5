"""Several studies by one command: one after the other, within one budget of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from galafed.errors import GalafedError
from galafed.studies.base import studies

LEAST = 1e-6
"""Minutes that are none, but not the 0 that stands for no limit."""


def lacking(out: Path) -> list[str]:
    """The studies that are not whole yet, by name."""
    progress = {name: studies.get(name)().progress(out) for name in studies.names()}
    return [name for name, (measured, every) in progress.items() if measured < every]


def work_through(
    names: Sequence[str],
    reproduce: Callable[[str, float], Sequence[Path]],
    *,
    minutes: float,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Path]:
    """What `reproduce(name, minutes left)` writes of each study; one that fails is told, and raised after the others.

    No study is begun after `minutes`; 0 is no limit.
    """
    started, problem = clock(), None
    for number, name in enumerate(names):
        left = minutes - (clock() - started) / 60
        if minutes and left <= 0:
            say(f"time is up; not begun: {', '.join(names[number:])}")
            break
        try:
            yield from reproduce(name, max(left, LEAST) if minutes else 0.0)
        except GalafedError as error:
            if len(names) == 1:
                raise
            say(f"{name}: {error}")
            problem = error
    if problem is not None:
        raise problem
