"""The runs of several studies in one queue: no process stands idle while the last runs of a study are done."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from galafed.config import Run
from galafed.errors import DataError, GalafedError
from galafed.runs import archive
from galafed.runs.files import one_at_a_time, require_writable
from galafed.runs.folders import DONE
from galafed.runs.sharing import carry_out
from galafed.studies.base import Cell, Desk, Study, chosen, measured_of, refuse_unknown

Problem = GalafedError | KeyboardInterrupt


class Share:
    """What a study has in the queue: the runs it lacks, and an archive that their summaries go to."""

    def __init__(self, study: Study, desk: Desk) -> None:
        study.prepare(desk.out)
        self.study, self.desk, self.folder = study, desk, desk.out / study.name
        self.cells = study.cells()
        measured = self.measured()
        self.missing = [cell for cell in self.cells if archive.recipe(cell.run) not in measured]
        self.unreadable: dict[str, GalafedError] = {}
        self.written: list[Path] = []
        known = len(self.cells) - len(self.missing)
        desk.say(f"{study.title}: {len(self.cells)} runs, {known} measured, {len(self.missing)} to do")

    def measured(self) -> Mapping[str, archive.Summary]:
        """By recipe, what is in the archives by now."""
        return measured_of(self.study, self.cells, self.desk.out)

    def todo(self) -> list[Run]:
        """The runs that are missing, of the rows and columns that were asked for."""
        return [cell.run for cell in chosen(self.missing, self.desk) if not self._is_done(cell)]

    def keep(self) -> None:
        """Put what was finished by now into the archive; what another study has measured stays there."""
        measured = self.measured()
        done = {archive.recipe(cell.run): cell.run for cell in self.missing if self._is_done(cell)}
        fresh: dict[str, archive.Summary] = {}
        for key, run in done.items():
            folder = self.desk.work / run.run_name
            try:
                if key not in measured:
                    fresh[key] = archive.of_run(folder, kept=self.study.keeps(folder))
                self.unreadable.pop(key, None)
            except GalafedError as error:  # of this run alone; raised when the others are in the table
                self.unreadable[key] = error
            except RuntimeError as error:  # runs beside it have filled the GPU: it is tried again in the end
                why = f"{folder}: what is kept of it could not be computed ({error}); the same command tries again"
                self.unreadable[key] = DataError(why)
        if fresh:
            with one_at_a_time(self.folder):  # another command may have added to it since
                archive.add(self.folder, fresh)

    def put_down(self) -> None:
        """Write the table of all there is, and tell which files these are."""
        self.keep()
        if not self._measured_cells():
            self.desk.say(f"{len(self.cells)} runs are still missing; there is nothing to show yet")
        else:
            with one_at_a_time(self.folder):  # a table of fewer runs is not to overtake this one
                done = self._measured_cells()
                self.written += self.study.write(self.folder, done, command=self.study.command(self.desk))
            if lacking := len(self.cells) - len(done):
                self.desk.say(f"{lacking} runs are still missing; the table shows what there is")
        if (own := self.folder / archive.FILE).exists():
            self.written.append(own)
        if self.unreadable:
            raise DataError("\n".join(map(str, self.unreadable.values())))

    def _measured_cells(self) -> list[tuple[Cell, archive.Summary]]:
        measured = self.measured()
        return [(cell, measured[key]) for cell in self.cells if (key := archive.recipe(cell.run)) in measured]

    def _is_done(self, cell: Cell) -> bool:
        return (self.desk.work / cell.run.run_name / DONE).exists()


def work_together(studies: Sequence[Study], desk: Desk) -> Sequence[Path]:
    """Run what studies lack, `desk.jobs` at a time, and write their tables; returns the files.

    A study that fails does not stop the others: it is told, and its error raised after them.
    """
    refuse_unknown(studies, desk)
    shares: list[Share] = []
    problems: list[Problem] = []
    for study in studies:
        try:
            shares.append(Share(study, desk))
        except GalafedError as error:
            problems.append(_told(study, error, studies, desk))
    try:
        if not desk.table:
            _run(shares, desk)
    except (GalafedError, KeyboardInterrupt) as error:  # what the other runs have found is kept
        problems.insert(0, error)
    for share in shares:
        try:
            share.put_down()
        except GalafedError as error:
            problems.append(_told(share.study, error, studies, desk))
    written = [path for share in shares for path in share.written]
    if problems:
        for path in written:
            desk.say(f"wrote {path}")
        if len(studies) == 1:
            for problem in problems[1:]:
                desk.say(f"{studies[0].name}: {problem}")
        raise problems[0]
    return written


def _told(study: Study, error: GalafedError, studies: Sequence[Study], desk: Desk) -> GalafedError:
    if len(studies) > 1:  # of a single one the first problem is told by whoever catches it
        desk.say(f"{study.name}: {error}")
    return error


def _run(shares: Sequence[Share], desk: Desk) -> None:
    """Do the runs, each once, whoever wants it; one that is finished is put down at once."""

    def finished(run: Run) -> None:
        for share in shares:
            if any(cell.run == run for cell in share.missing):
                with contextlib.suppress(GalafedError):  # told in the end, when it is tried again: the others go on
                    share.keep()

    # What another study will find in the archive, by its recipe, is not made for it again.
    wanted = {(archive.recipe(run), share.study.kept_by()): run for share in shares for run in share.todo()}
    runs = {run.run_name: run for run in wanted.values()}
    if runs:  # told now, not after hours: a machine may be taken away with what could not be put down
        require_writable(desk.out)
    # Seed after seed, so that studies that are cut short have whole tables with fewer seeds.
    todo = sorted(runs.values(), key=lambda run: run.seed)
    where: dict[str, Any] = {"jobs": desk.jobs, "minutes": desk.minutes, "place": desk.place, "say": desk.say}
    carry_out(todo, desk.work, finished=finished, **where)
