"""A study: a list of runs and how to tabulate them. Finished runs are never repeated, interrupted ones go on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import tomli_w

from galafed.config import Run
from galafed.errors import GalafedError
from galafed.registry import Registry
from galafed.report.words import duration
from galafed.runs.files import write_atomically
from galafed.runs.records import finished, record


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
    name: str, *, minutes: float, jobs: int, out: Path, work: Path, say: Callable[[str], None]
) -> Sequence[Path]:
    """Run what is missing, `jobs` at a time, for at most `minutes`, then write the study's table from the summaries."""
    study = studies.get(name)()
    cells = study.cells()
    missing = [cell for cell in cells if not is_done(work / cell.run.run_name)]
    say(f"{study.title}: {len(cells)} runs, {len(cells) - len(missing)} done, {len(missing)} to do")
    deadline = time.monotonic() + 60 * minutes if minutes else float("inf")
    started, count = time.monotonic(), 0
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(carry_out, cell.run, work / cell.run.run_name, deadline) for cell in missing]
        for future in as_completed(futures):
            result = future.result()
            if result is None:
                continue
            count += 1
            left = (time.monotonic() - started) / count * (len(missing) - count)
            say(f"{count}/{len(missing)}  {result}  left {duration(left)}")
    done = [(c, finished(work / c.run.run_name)) for c in cells if is_done(work / c.run.run_name)]
    if len(done) < len(cells):
        say(f"{len(cells) - len(done)} runs are still missing; the table shows what there is")
    return study.write(out / name, done, command=f"gala reproduce {name}")


def is_done(folder: Path) -> bool:
    """Whether the run in a folder came to its end."""
    return (folder / "done").exists()


def carry_out(run: Run, folder: Path, deadline: float) -> str | None:
    """One run in a process of its own, so that a study uses every core and no run disturbs another."""
    if time.monotonic() > deadline:
        return None
    folder.parent.mkdir(parents=True, exist_ok=True)
    config = folder.with_suffix(".toml")
    write_atomically(config, tomli_w.dumps(run.to_dict()).encode())
    command = [sys.executable, "-m", "galafed", "run", "--config", str(config), "--out", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": str(run.threads)}
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603
    config.unlink(missing_ok=True)
    if process.returncode:
        raise GalafedError(
            f"{folder}: its run ended with exit code {process.returncode}: {process.stderr.strip()[-500:]}"
        )
    return f"{folder.name}  {100 * record(folder)['accuracy']['last']:.1f} %"


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
