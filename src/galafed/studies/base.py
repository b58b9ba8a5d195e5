"""A study: a list of runs and how to tabulate them. Finished runs are never repeated, interrupted ones go on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from galafed.config import Run
from galafed.registry import Registry
from galafed.runs import archive
from galafed.runs.sharing import carry_out


@dataclass(frozen=True)
class Cell:
    """One run of a study, and the row and column of the table it belongs to."""

    row: str
    column: str
    run: Run


class Study(Protocol):
    """A table or figure: which runs it needs and what is made of their summaries."""

    name: ClassVar[str]
    title: ClassVar[str]

    def cells(self) -> Sequence[Cell]: ...

    def write(
        self, folder: Path, done: Sequence[tuple[Cell, Mapping[str, Any]]], *, command: str
    ) -> Sequence[Path]: ...


studies: Registry[type[Study]] = Registry("study", "galafed.studies")


def reproduce(
    name: str,
    *,
    minutes: float,
    jobs: int,
    place: Mapping[str, Any],
    out: Path,
    work: Path,
    say: Callable[[str], None],
) -> Sequence[Path]:
    """Run what was not measured yet, `jobs` at a time, for at most `minutes`, then write the study's table.

    `place` overrides where runs are done (device, engine); what they do stays.
    """
    study = studies.get(name)()
    cells = study.cells()
    measured = archive.read(out / name)
    for other in studies.names():  # a run may belong to several studies
        found = archive.read(out / other)
        measured |= {key: found[key] for cell in cells if (key := archive.recipe(cell.run)) in found}
    missing = [cell for cell in cells if archive.recipe(cell.run) not in measured]
    say(f"{study.title}: {len(cells)} runs, {len(cells) - len(missing)} measured, {len(missing)} to do")
    # Seed after seed, so that a study that is cut short has whole tables with fewer seeds.
    todo = sorted((cell.run for cell in missing if not _done(work, cell)), key=lambda run: run.seed)
    carry_out(todo, work, jobs=jobs, minutes=minutes, place=place, say=say)
    new = {archive.recipe(cell.run): archive.of_run(work / cell.run.run_name) for cell in missing if _done(work, cell)}
    measured |= new
    done = [(cell, measured[key]) for cell in cells if (key := archive.recipe(cell.run)) in measured]
    if len(done) < len(cells):
        say(f"{len(cells) - len(done)} runs are still missing; the table shows what there is")
    written = archive.write(out / name, measured.values()) if measured else None
    command = f"gala reproduce {name}"
    return [*study.write(out / name, done, command=command), *([written] if written else [])]


def progress(out: Path) -> list[dict[str, Any]]:
    """Every study and how much of it was measured."""
    rows = []
    for name in studies.names():
        cells = studies.get(name)().cells()
        measured = archive.read(out / name)
        count = sum(archive.recipe(cell.run) in measured for cell in cells)
        rows.append({"name": name, "measured": count, "runs": len(cells), "title": studies.get(name).title})
    return rows


def _done(work: Path, cell: Cell) -> bool:
    return (work / cell.run.run_name / "done").exists()


def commit() -> str:
    """The commit of the source tree, or the package's version where there is none."""
    from galafed import __version__

    here = Path(__file__).parent
    command = ["git", "-C", str(here), "rev-parse", "--short", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return __version__
    return found.stdout.strip() or __version__
