"""What `gala reproduce` makes: tables and figures of many runs. What was measured is never measured twice."""

from __future__ import annotations

import json
import shlex
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from galafed.benchmarks.base import NoSettings
from galafed.config import Run
from galafed.errors import ConfigError
from galafed.registry import Registry, unknown
from galafed.reproduction.editions import Edition
from galafed.reproduction.published import CONTENTS
from galafed.runs import archive
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
    settings: str = ""
    """What was set of the study, as it is typed."""
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

    def of_data(self) -> Edition | None:
        """What must be known of its data, told on its page and on the page over all studies."""
        return None

    def command(self, desk: Desk) -> str:
        """What its page tells to type."""
        return f"gala reproduce {self.name}{desk.settings}"

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

    def carry_out(self, desk: Desk) -> Sequence[Path]:
        """Run what was not measured yet, several at a time, and put the summaries in the study's archive."""
        from galafed.reproduction.together import work_together  # which knows studies

        return work_together([self], desk)

    def progress(self, out: Path) -> tuple[int, int]:
        try:
            self.prepare(out)
        except ConfigError:  # nothing can have been measured
            return 0, len(self.cells())
        cells = self.cells()
        return len(measured_of(self, cells, out)), len(cells)


def chosen(cells: Sequence[Cell], desk: Desk) -> list[Cell]:
    """Those of the rows and columns that are to be worked on: all of them where none are named."""
    rows, columns = desk.rows, desk.columns
    return [cell for cell in cells if (not rows or cell.row in rows) and (not columns or cell.column in columns)]


def _cells_of(study: Study) -> Sequence[Cell]:
    """The cells of a study; none of one whose runs cannot be resolved, of which its own turn tells."""
    try:
        return study.cells()
    except ConfigError:
        return ()


def refuse_unknown(studies: Sequence[Study], desk: Desk) -> None:
    """Rows and columns must be those of one of the studies."""
    if not (desk.rows or desk.columns):
        return
    cells = [cell for study in studies for cell in _cells_of(study)]
    for option, wanted, key in (("--rows", desk.rows, "row"), ("--columns", desk.columns, "column")):
        known = tuple(dict.fromkeys(getattr(cell, key) for cell in cells))
        for name in wanted:
            if name not in known:
                raise ConfigError(unknown(option, name, known))


studies: Registry[type[Reproducible]] = Registry("study", "galafed.studies")


def reproduce(
    *names: str,
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
    """Do what studies lack, `jobs` runs at a time, for at most `minutes`, then write their tables.

    Studies of runs share a queue; others are measured before, one after the other.
    """
    chosen = [f"{key}={_as_given(value)}" for key, value in (settings or {}).items()]
    desk = Desk(
        out=out,
        work=work,
        minutes=minutes,
        jobs=jobs,
        place=place,
        say=say,
        settings="".join(f" --set {shlex.quote(assignment)}" for assignment in chosen),
        rows=rows,
        columns=columns,
        table=table,
    )
    found = [study_of(name, settings) for name in names]
    of_runs = [study for study in found if isinstance(study, Study)]
    if (rows or columns) and (others := [study.name for study in found if not isinstance(study, Study)]):
        raise ConfigError(f"--rows, --columns: {others[0]} is no table of runs; leave them out, or that study")
    written = [path for study in found if not isinstance(study, Study) for path in study.carry_out(desk)]
    if of_runs:
        from galafed.reproduction.together import work_together  # which knows studies

        written += work_together(of_runs, desk)
    return written


def study_of(name: str, settings: Mapping[str, Any] | None = None) -> Reproducible:
    """The study of a name, told what was set."""
    kind = studies.get(name)
    if settings and not fields(kind.Settings):
        raise ConfigError(f"--set {next(iter(settings))}: {name} has no settings; leave it out")
    mine: Any = build(kind.Settings, settings or {}, "")
    return kind(mine)


def _as_given(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def measured_of(study: Study, cells: Sequence[Cell], out: Path) -> dict[str, archive.Summary]:
    """By recipe, what studies that keep as much of a run have measured of these cells: a run may belong to several.

    What a study has measured itself wins.
    """
    every = ((name, studies.get(name)) for name in studies.names() if name != study.name)
    others = [name for name, kind in every if issubclass(kind, Study) and kind.kept_by() == study.kept_by()]
    wanted = {archive.recipe(cell.run) for cell in cells}
    found = {key: summary for name in (*others, study.name) for key, summary in _archive(out / name).items()}
    return {key: found[key] for key in found.keys() & wanted}


def _archive(folder: Path) -> Mapping[str, archive.Summary]:
    """A study's archive, which many others ask for; read again only when it has changed."""
    path = folder / archive.FILE
    return _read(folder, path.stat().st_mtime_ns if path.exists() else 0)


@lru_cache(maxsize=64)
def _read(folder: Path, changed: int) -> Mapping[str, archive.Summary]:
    return archive.read(folder)


def progress(out: Path) -> list[dict[str, Any]]:
    """Every study and how much of it was measured: the paper's in its order, then ours."""
    rows = []
    for name in (*CONTENTS, *(name for name in studies.names() if name not in CONTENTS)):
        study, why = studies.get(name)(), ""
        try:
            measured, every = study.progress(out)
        except ConfigError as error:  # a plug-in whose algorithm is gone, for example: the others are listed
            measured, every, why = 0, 0, f" (its runs cannot be resolved: {error})"
        rows.append({"name": name, "measured": measured, "runs": every, "title": f"{study.title}{why}"})
    return rows


def commit() -> str:
    """The commit of the source tree, told where the package was changed since; its version where there is none."""
    from galafed import __version__

    here = Path(__file__).parents[1]
    try:
        if _git(here, "ls-files", "--error-unmatch", "__init__.py").returncode:
            return __version__  # installed, perhaps inside the tree of another project
        found = _git(here, "rev-parse", "--short", "HEAD").stdout.strip()
        # A new file counts, too: a method or a study that was never committed is in no commit.
        changed = found and _git(here, "status", "--porcelain", "--untracked-files=normal", "--", ".").stdout
    except OSError:
        return __version__
    return f"{found} with changes" if changed else found or __version__


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
