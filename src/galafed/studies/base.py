"""What `gala reproduce` makes: tables and figures of many runs. What was measured is never measured twice."""

from __future__ import annotations

import json
import shlex
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from galafed.benchmarks.base import NoSettings
from galafed.config import Run
from galafed.errors import ConfigError, GalafedError
from galafed.registry import Registry, unknown
from galafed.runs import archive
from galafed.runs.files import one_at_a_time
from galafed.runs.sharing import carry_out
from galafed.typed import build


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Where and for how long a study is worked on.

    `place` overrides where work is done (device, engine); what is done stays. Nothing is begun after `minutes`. Of a
    study of runs only `rows` and `columns` are worked on, if any are named. For the `table` alone nothing is measured.
    """

    out: Path
    work: Path
    minutes: float
    jobs: int
    place: Mapping[str, Any]
    say: Callable[[str], None]
    command: str = ""
    """The one that the table tells to type."""
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    table: bool = False


class Reproducible(ABC):
    """A table or a figure, from work that may be interrupted at any time and gone on with."""

    name: ClassVar[str]
    title: ClassVar[str]
    Settings: ClassVar[type] = NoSettings
    """A frozen dataclass of what may be set with --set."""

    def __init__(self, settings: Any = None) -> None:
        self.settings = self.Settings() if settings is None else settings

    def of_data(self) -> str:
        """What must be known of its data, told on its page and on the page over all studies."""
        return ""

    @abstractmethod
    def carry_out(self, desk: Desk) -> Sequence[Path]:
        """Do what was not measured yet, then write the table or picture; returns the files."""

    @abstractmethod
    def progress(self, out: Path) -> tuple[int, int]:
        """How many of its parts were measured, and how many there are."""


@dataclass(frozen=True)
class Cell:
    """One run of a study, and the row and column of the table it belongs to."""

    row: str
    column: str
    run: Run


class Study(Reproducible):
    """A table or figure of runs: which it needs, and what is made of their summaries."""

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

    def prepare(self, out: Path) -> None:
        """Look up in the folder of results what has to be known before the runs are."""

    def chosen(self, cells: Sequence[Cell], desk: Desk) -> list[Cell]:
        """The cells of the rows and columns that are to be worked on: all of them where none are named."""
        rows, columns = (tuple(dict.fromkeys(names)) for names in zip(*((c.row, c.column) for c in cells), strict=True))
        for option, wanted, known in (("--rows", desk.rows, rows), ("--columns", desk.columns, columns)):
            for name in wanted:
                if name not in known:
                    raise ConfigError(unknown(option, name, known))
        return [c for c in cells if c.row in (desk.rows or rows) and c.column in (desk.columns or columns)]

    def carry_out(self, desk: Desk) -> Sequence[Path]:
        """Run what was not measured yet, several at a time, and put the summaries in the study's archive."""
        self.prepare(desk.out)
        cells, out, work = self.cells(), desk.out / self.name, desk.work
        measured = archive.read(out) | measured_of(self, cells, desk.out)
        missing = [cell for cell in cells if archive.recipe(cell.run) not in measured]
        desk.say(f"{self.title}: {len(cells)} runs, {len(cells) - len(missing)} measured, {len(missing)} to do")
        wanted = [cell for cell in self.chosen(cells, desk) if cell in missing]
        # Seed after seed, so that a study that is cut short has whole tables with fewer seeds.
        todo = sorted((cell.run for cell in wanted if not _done(work, cell)), key=lambda run: run.seed)
        problem: GalafedError | KeyboardInterrupt | None = None
        if not desk.table:
            try:
                carry_out(todo, work, jobs=desk.jobs, minutes=desk.minutes, place=desk.place, say=desk.say)
            except (GalafedError, KeyboardInterrupt) as error:  # what the other runs have found is kept
                problem = error
        fresh: dict[str, archive.Summary] = {}
        for cell in missing:
            if _done(work, cell):
                folder = work / cell.run.run_name
                fresh[archive.recipe(cell.run)] = archive.of_run(folder, kept=self.keeps(folder))
        done, written = self._put_down(desk, cells, fresh) if fresh or measured else (0, [])
        if done < len(cells):
            shows = "the table shows what there is" if done else "there is nothing to show yet"
            desk.say(f"{len(cells) - done} runs are still missing; {shows}")
        if problem is not None:
            raise problem
        return written

    def _put_down(
        self, desk: Desk, cells: Sequence[Cell], fresh: Mapping[str, archive.Summary]
    ) -> tuple[int, Sequence[Path]]:
        """Add summaries to the archive and write the table of all there is; how many cells it has, and the files."""
        out = desk.out / self.name
        # Another command may have added to the archive since this one began; its table is not to be overtaken either.
        with one_at_a_time(out):
            own = archive.add(out, fresh)  # what another study has measured stays there
            measured = measured_of(self, cells, desk.out) | own
            done = [(cell, measured[key]) for cell in cells if (key := archive.recipe(cell.run)) in measured]
            written = self.write(out, done, command=desk.command) if done else ()
        return len(done), [*written, *([out / archive.FILE] if own else [])]

    def progress(self, out: Path) -> tuple[int, int]:
        try:
            self.prepare(out)
        except ConfigError:  # nothing can have been measured
            return 0, len(self.cells())
        cells = self.cells()
        return len(measured_of(self, cells, out)), len(cells)


studies: Registry[type[Reproducible]] = Registry("study", "galafed.studies")


def reproduce(
    name: str,
    *,
    minutes: float,
    jobs: int,
    place: Mapping[str, Any],
    out: Path,
    work: Path,
    say: Callable[[str], None],
    settings: Mapping[str, Any] | None = None,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    table: bool = False,
) -> Sequence[Path]:
    """Do what a study lacks, `jobs` runs at a time, for at most `minutes`, then write its table."""
    study = study_of(name, settings)
    chosen = [f"{key}={_as_given(value)}" for key, value in (settings or {}).items()]
    told = "".join(f" --set {shlex.quote(assignment)}" for assignment in chosen)
    command = f"gala reproduce {name}{told}"
    return study.carry_out(
        Desk(
            out=out,
            work=work,
            minutes=minutes,
            jobs=jobs,
            place=place,
            say=say,
            command=command,
            rows=rows,
            columns=columns,
            table=table,
        )
    )


def study_of(name: str, settings: Mapping[str, Any] | None = None) -> Reproducible:
    """The study of a name, told what was set."""
    kind = studies.get(name)
    mine: Any = build(kind.Settings, settings or {}, f"{name}.")
    return kind(mine)


def _as_given(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def measured_of(study: Study, cells: Sequence[Cell], out: Path) -> dict[str, archive.Summary]:
    """By recipe, what studies that keep as much of a run have measured of these cells: a run may belong to several."""
    every = ((name, studies.get(name)) for name in studies.names())
    others = [name for name, kind in every if issubclass(kind, Study) and kind.kept_by() == study.kept_by()]
    wanted = {archive.recipe(cell.run) for cell in cells}
    found = {key: summary for name in others for key, summary in _archive(out / name).items()}
    return {key: found[key] for key in found.keys() & wanted}


def _archive(folder: Path) -> Mapping[str, archive.Summary]:
    """A study's archive, which many others ask for; read again only when it has changed."""
    path = folder / archive.FILE
    return _read(folder, path.stat().st_mtime_ns if path.exists() else 0)


@lru_cache(maxsize=64)
def _read(folder: Path, changed: int) -> Mapping[str, archive.Summary]:
    return archive.read(folder)


def progress(out: Path) -> list[dict[str, Any]]:
    """Every study and how much of it was measured."""
    rows = []
    for name in studies.names():
        study = studies.get(name)()
        measured, every = study.progress(out)
        rows.append({"name": name, "measured": measured, "runs": every, "title": study.title})
    return rows


def _done(work: Path, cell: Cell) -> bool:
    return (work / cell.run.run_name / "done").exists()


def commit() -> str:
    """The commit of the source tree, told where the package was changed since; its version where there is none."""
    from galafed import __version__

    here = Path(__file__).parents[1]
    try:
        found = _git(here, "rev-parse", "--short", "HEAD").stdout.strip()
        changed = found and _git(here, "diff", "--quiet", "HEAD", "--", ".").returncode == 1
    except OSError:
        return __version__
    return f"{found} with changes" if changed else found or __version__


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
