"""Cells of a table run once more, with a seed of the reader's choice, beside what was measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import fmean, pstdev

from galafed.errors import ConfigError, GalafedError
from galafed.runs import archive
from galafed.runs.folders import DONE
from galafed.runs.records import finished
from galafed.runs.sharing import carry_out
from galafed.studies.base import Cell, Desk, Reproducible, Study, chosen, measured_of, refuse_unknown


@dataclasses.dataclass(frozen=True)
class Checked:
    """One cell: accuracies of last rounds in percent, as they were measured and of the run that was made again."""

    row: str
    column: str
    measured: Sequence[float]
    again: float

    @property
    def mean(self) -> float:
        return fmean(self.measured)

    @property
    def deviation(self) -> float:
        return pstdev(self.measured)

    @property
    def difference(self) -> float:
        return self.again - self.mean


def check(study: Reproducible, seed: int, desk: Desk) -> tuple[list[Checked], GalafedError | None]:
    """Run those of the chosen cells that were measured with this seed; what was measured stays as it is.

    Returns what came of them, and what went wrong with others.
    """
    if not isinstance(study, Study):
        raise ConfigError(f"{study.name} is no table of runs: there is nothing that a seed would change")
    study.prepare(desk.out)
    refuse_unknown([study], desk)
    cells = study.cells()
    found = measured_of(study, cells, desk.out)
    known = [cell for cell in chosen(cells, desk) if archive.recipe(cell.run) in found]
    if seed in {cell.run.seed for cell in known}:
        raise ConfigError(f"--check {seed}: that seed is among those measured; give one that is not")
    if not known:
        raise ConfigError(
            f"nothing of that was measured yet, so there is nothing to check: gala reproduce {study.name}"
        )
    # One run for each place in the table, however many seeds that has.
    again = {(cell.row, cell.column): dataclasses.replace(cell.run, seed=seed) for cell in known}
    measured = {at: [archive.accuracy(found[archive.recipe(c.run)]) for c in _at(at, known)] for at in again}
    desk.say(f"{study.title}: {len(again)} cells were measured and are run with seed {seed}")
    problem: GalafedError | None = None
    try:
        carry_out(list(again.values()), desk.work, jobs=desk.jobs, minutes=desk.minutes, place=desk.place, say=desk.say)
    except GalafedError as error:  # the others are shown
        problem = error
    folders = {place: desk.work / run.run_name for place, run in again.items()}
    done = {place: folder for place, folder in folders.items() if (folder / DONE).exists()}
    if problem and not done:
        raise problem
    if len(done) < len(again) and not problem:
        _tell_of_the_rest(len(again) - len(done), len(again), desk)
    checked = [Checked(*place, measured[place], archive.accuracy(finished(folder))) for place, folder in done.items()]
    return checked, problem


def _tell_of_the_rest(left: int, every: int, desk: Desk) -> None:
    """Say how many cells were not run; where none was, nothing was checked, and that is no success."""
    late = f"--minutes {desk.minutes:g} were over, or " if desk.minutes else ""
    why = f"{left} of {every} cells were not run: {late}another command works on them"
    if left == every:
        raise ConfigError(f"nothing was checked, for {why}; allow more minutes (0 is no limit), or wait for the other")
    desk.say(f"{why}; the same command goes on with them")


def _at(place: tuple[str, str], cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if (cell.row, cell.column) == place]
