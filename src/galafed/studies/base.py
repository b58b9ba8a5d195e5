"""A study: a list of runs and how to tabulate them. Finished runs are never repeated, interrupted ones go on."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

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


class Study(ABC):
    """A table or figure: which runs it needs and what is made of their summaries."""

    name: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def cells(self) -> Sequence[Cell]:
        """The runs, each with its place in the table."""

    @abstractmethod
    def write(self, folder: Path, done: Sequence[tuple[Cell, Mapping[str, Any]]], *, command: str) -> Sequence[Path]:
        """Write the table or picture of the finished runs; returns the files."""

    def keeps(self, folder: Path) -> Mapping[str, Any]:
        """What of a finished run in this folder is kept beside its summary, under "kept"."""
        return {}

    @classmethod
    def kept_by(cls) -> object:
        """Equal for studies that keep the same of a run."""
        return cls.keeps


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
    measured = archive.read(out / name) | _measured(study, cells, out)
    missing = [cell for cell in cells if archive.recipe(cell.run) not in measured]
    say(f"{study.title}: {len(cells)} runs, {len(cells) - len(missing)} measured, {len(missing)} to do")
    # Seed after seed, so that a study that is cut short has whole tables with fewer seeds.
    todo = sorted((cell.run for cell in missing if not _done(work, cell)), key=lambda run: run.seed)
    carry_out(todo, work, jobs=jobs, minutes=minutes, place=place, say=say)
    for cell in missing:
        if _done(work, cell):
            folder = work / cell.run.run_name
            measured[archive.recipe(cell.run)] = archive.of_run(folder, kept=study.keeps(folder))
    done = [(cell, measured[key]) for cell in cells if (key := archive.recipe(cell.run)) in measured]
    if len(done) < len(cells):
        say(f"{len(cells) - len(done)} runs are still missing; the table shows what there is")
    written = archive.write(out / name, measured.values()) if measured else None
    command = f"gala reproduce {name}"
    return [*study.write(out / name, done, command=command), *([written] if written else [])]


def _measured(study: Study, cells: Sequence[Cell], out: Path) -> dict[str, archive.Summary]:
    """By recipe, what studies that keep as much of a run have measured of these cells: a run may belong to several."""
    others = [name for name in studies.names() if studies.get(name).kept_by() == study.kept_by()]
    wanted = {archive.recipe(cell.run) for cell in cells}
    found = {key: summary for name in others for key, summary in archive.read(out / name).items()}
    return {key: found[key] for key in found.keys() & wanted}


def progress(out: Path) -> list[dict[str, Any]]:
    """Every study and how much of it was measured."""
    rows = []
    for name in studies.names():
        study = studies.get(name)()
        cells = study.cells()
        rows.append(
            {"name": name, "measured": len(_measured(study, cells, out)), "runs": len(cells), "title": study.title}
        )
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
