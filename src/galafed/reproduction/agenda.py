"""Several studies by one command, within one budget of time: studies of runs together, others one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from galafed.errors import GalafedError
from galafed.studies.base import Study, progress, studies

LEAST = 1e-6
"""Minutes that are none, but not the 0 that stands for no limit."""


def lacking(out: Path) -> list[str]:
    """The studies that are not whole yet, by name."""
    return [row["name"] for row in progress(out) if row["measured"] < row["runs"]]


def turns(names: Sequence[str], out: Path) -> Iterator[Sequence[str]]:
    """Which studies are done together: all whose runs are known.

    What is measured by itself comes before, for it may measure seconds; what waits for results of another after.
    """
    of_runs = [name for name in names if issubclass(studies.get(name), Study)]
    yield from ([name] for name in names if name not in of_runs)
    ready = [name for name in of_runs if _knows_its_runs(name, out)]
    if ready:
        yield ready
    yield from ([name] for name in of_runs if name not in ready)


def _knows_its_runs(name: str, out: Path) -> bool:
    study = studies.get(name)()
    try:
        if isinstance(study, Study):
            study.prepare(out)
    except GalafedError:  # in its own turn it is told, and stops no other
        return False
    return True


def work_through(
    turns: Iterable[Sequence[str]],
    reproduce: Callable[[Sequence[str], float], Sequence[Path]],
    *,
    minutes: float,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Path]:
    """What `reproduce(names, minutes left)` writes in each turn; one that fails is told, and raised after the others.

    No turn is begun after `minutes`; 0 is no limit.
    """
    started, not_begun, untold = clock(), list[str](), ""
    problem: GalafedError | None = None
    for names in turns:
        if untold:
            say(untold)
        untold, left = "", minutes - (clock() - started) / 60
        if minutes and left <= 0:
            not_begun += names
            continue
        try:
            yield from reproduce(names, max(left, LEAST) if minutes else 0.0)
        except GalafedError as error:  # where it was the last turn, whoever catches it tells
            problem, untold = error, f"{', '.join(names)}: {error}"
    if not_begun:
        say(f"time is up; not begun: {', '.join(not_begun)}")
    if problem is not None:
        raise problem
