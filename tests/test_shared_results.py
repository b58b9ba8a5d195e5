"""Several commands that measure for one folder of results: what each has found is there in the end."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import tomli_w
import torch

from galafed.config import Run, resolve
from galafed.errors import DataError, GalafedError
from galafed.reproduction import measurement, together
from galafed.reproduction.history import history_of
from galafed.reproduction.measurement import Measurement, Record, Unit
from galafed.runs import archive
from galafed.runs.files import one_at_a_time
from galafed.studies import base
from galafed.studies.base import Cell, Study

PAUSE = 0.2
"""Seconds in which the other command could come between, if it were let."""


class TwoColumns(Study):
    """A run in each of two columns; who draws one of them alone is slow."""

    name = "study"
    title = "Two columns"

    def cells(self) -> list[Cell]:
        return [Cell("row", str(seed), resolve({"benchmark": "toy", "seed": seed})) for seed in (0, 1)]

    def write(self, folder: Path, done: Sequence[Any], *, command: str) -> list[Path]:
        time.sleep(0 if len(done) == 2 else 2 * PAUSE)
        (folder / "table").write_text(" ".join(cell.column for cell, _ in done))
        return [folder / "table"]


def finish(runs: Sequence[Run], work: Path) -> None:
    """The folders of finished runs."""
    for run in runs:
        folder = work / run.run_name
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(tomli_w.dumps(run.to_dict()))
        known = {key: getattr(run, key) for key in ("benchmark", "target", "algorithm", "rounds", "seed")}
        (folder / "summary.json").write_text(json.dumps(known | {"accuracy": {"last": None}, "digest": ""}))
        (folder / "done").touch()


def reproduce(tmp_path: Path, work: str = "work", **more: Any) -> Sequence[Path]:
    values = {"minutes": 0, "jobs": 1, "place": {"device": "cpu"}, "say": lambda text: None, **more}
    return base.reproduce("study", out=tmp_path / "results", work=tmp_path / work, **values)


COUNTING = """
import sys, time
from pathlib import Path
from galafed.runs.files import one_at_a_time
folder = Path(sys.argv[1])
for _ in range(25):
    with one_at_a_time(folder):
        count = int((folder / "count").read_text())
        time.sleep(0.002)
        (folder / "count").write_text(str(count + 1))
"""


def test_processes_work_in_a_folder_one_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    counting = [subprocess.Popen([sys.executable, "-c", COUNTING, str(tmp_path)]) for _ in range(4)]
    assert [process.wait(60) for process in counting] == [0, 0, 0, 0]
    assert (tmp_path / "count").read_text() == "100"
    assert [path.name for path in tmp_path.iterdir()] == ["count"]


def test_the_lock_is_on_a_file_which_other_machines_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over NFS a lock on a folder holds on one machine only, one on a file that is open for writing on all."""
    locked = []
    monkeypatch.setattr(fcntl, "flock", lambda file, how: locked.append((os.fstat(file.fileno()), file.writable())))
    with one_at_a_time(tmp_path / "new"):
        assert [(stat.S_ISREG(found.st_mode), writable) for found, writable in locked] == [(True, True)]
    with pytest.raises(FileNotFoundError), one_at_a_time(tmp_path / "new"):
        (tmp_path / "missing").unlink()
    assert list((tmp_path / "new").iterdir()) == []


def at_once(*commands: Callable[[], object]) -> None:
    with ThreadPoolExecutor(len(commands)) as pool:
        for future in [pool.submit(command) for command in commands]:
            future.result()


def slowly(whole: Callable[..., Any]) -> Callable[..., Any]:
    """The same after a pause, the longer the earlier: who comes first would write last."""
    pauses = iter((2 * PAUSE, PAUSE))

    def slow(*arguments: Any) -> Any:
        time.sleep(next(pauses, 0))
        return whole(*arguments)

    return slow


@pytest.fixture
def two_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base.studies, "get", lambda name: TwoColumns)


def columns_found(tmp_path: Path) -> tuple[list[int], str, list[str]]:
    """The seeds in the archive, the columns of the table, and the files there are."""
    folder = tmp_path / "results" / "study"
    seeds = sorted(found["seed"] for found in archive.read(folder).values())
    return seeds, (folder / "table").read_text(), sorted(path.name for path in folder.iterdir())


def test_two_commands_that_end_together_lose_nothing_of_each_other(
    tmp_path: Path, two_columns: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_have_begun = Barrier(2)

    def carry_out(runs: Sequence[Run], work: Path, **rest: Any) -> None:
        both_have_begun.wait(timeout=30)
        finish(runs, work)

    monkeypatch.setattr(together, "carry_out", carry_out)
    monkeypatch.setattr(archive, "write", slowly(archive.write))
    at_once(*(lambda seed=seed: reproduce(tmp_path, f"work {seed}", columns=[seed]) for seed in "01"))
    assert columns_found(tmp_path) == ([0, 1], "0 1", ["runs.jsonl", "table"])


def test_an_archive_that_was_damaged_meanwhile_is_told_and_nothing_is_lost(
    tmp_path: Path, two_columns: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results" / "study" / archive.FILE
    finish([TwoColumns().cells()[0].run], tmp_path / "work")
    reproduce(tmp_path, table=True)
    whole = path.read_bytes()

    def carry_out(runs: Sequence[Run], work: Path, **rest: Any) -> None:
        finish(runs, work)
        path.write_bytes(whole + b'{"seed": ')

    monkeypatch.setattr(together, "carry_out", carry_out)
    with pytest.raises(DataError, match="line 2"):
        reproduce(tmp_path)
    assert path.read_bytes() == whole + b'{"seed": '
    path.write_bytes(whole)
    reproduce(tmp_path, table=True)
    assert columns_found(tmp_path)[:2] == ([0, 1], "0 1")


def test_every_problem_of_a_study_is_told(tmp_path: Path, two_columns: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def carry_out(runs: Sequence[Run], work: Path, **rest: Any) -> None:
        finish(runs, work)
        for run in runs:
            (work / run.run_name / "summary.json").unlink()
        raise GalafedError("1 of 3 runs failed")

    monkeypatch.setattr(together, "carry_out", carry_out)
    told: list[str] = []
    with pytest.raises(GalafedError, match="1 of 3 runs failed"):
        reproduce(tmp_path, say=told.append)
    (words,) = [text for text in told if "summary.json cannot be read" in text]
    assert len(words.splitlines()) == 2  # both of them


def test_a_history_that_is_not_whole_is_not_kept(tmp_path: Path) -> None:
    run = resolve({"benchmark": "toy", "rounds": 3})
    finish([run], tmp_path)
    folder = tmp_path / run.run_name
    (folder / "metrics.jsonl").write_text('{"round": 1}\n{"round": 2\n{"round": 3}\n')
    with pytest.raises(DataError, match="1 of 3 rounds can be read; restore the file from a copy"):
        history_of(folder)
    (folder / "checkpoints" / "round-00003").mkdir(parents=True)
    with pytest.raises(
        DataError, match=r"1 of 3 rounds can be read; remove .*done and write it anew with 'gala resume"
    ):
        history_of(folder)


@dataclass(frozen=True)
class Numbers:
    """Those to be squared."""

    numbers: tuple[int, ...] = (1, 2)


class Squares(Measurement):
    """Squares, of which the table has all that there are."""

    name = "study"
    title = "Squares"
    Settings = Numbers
    all_have_begun: Barrier

    def units(self, device: str) -> Sequence[Unit]:
        return [Unit(f"square of {n}", {"n": n}) for n in self.settings.numbers]

    def measure(self, unit: Unit, device: torch.device) -> Mapping[str, Any]:
        Squares.all_have_begun.wait(timeout=30)
        return {"square": unit.settings["n"] ** 2}

    def write(self, folder: Path, records: Sequence[Record], *, command: str) -> Sequence[Path]:
        every = measurement.archived(folder).values()
        time.sleep(0 if len(every) == 2 else 2 * PAUSE)
        (folder / "table").write_text(" ".join(str(n) for n in sorted(each["found"]["square"] for each in every)))
        return [folder / "table"]


def test_two_commands_that_measure_at_once_lose_nothing_of_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Squares.all_have_begun = Barrier(2)
    monkeypatch.setattr(base.studies, "get", lambda name: Squares)
    monkeypatch.setattr(measurement, "write_atomically", slowly(measurement.write_atomically))
    at_once(*(lambda n=n: reproduce(tmp_path, settings={"numbers": [n]}) for n in (1, 2)))
    folder = tmp_path / "results" / "study"
    assert sorted(each["found"]["square"] for each in measurement.archived(folder).values()) == [1, 4]
    assert (folder / "table").read_text() == "1 4"
    assert sorted(path.name for path in folder.iterdir()) == [measurement.FILE, "table"]


def test_summaries_that_are_there_by_now_stay(tmp_path: Path) -> None:
    run = resolve({"benchmark": "toy", "rounds": 1})
    first, second = ({"config": run.to_dict(), "accuracy": {"last": value}} for value in (0.1, 0.2))
    key = archive.recipe(run)
    archive.add(tmp_path, {key: first})
    archive.add(tmp_path, {key: second})
    assert archive.read(tmp_path)[key]["accuracy"] == {"last": 0.1}


def test_what_another_study_has_measured_serves_where_as_much_is_kept_and_ones_own_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = resolve({"benchmark": "toy", "rounds": 1})

    class Curves(base.Study):
        name, title = "curves", "Curves"

        def cells(self) -> list[base.Cell]:
            return [base.Cell("a", "b", run)]

        def write(self, folder: Path, done: Any, *, command: str) -> list[Path]:
            return []

        @classmethod
        def kept_by(cls) -> object:
            return "curves"

    same = type("Same", (Curves,), {"name": "same"})
    less = type("Less", (Curves,), {"name": "less", "kept_by": classmethod(lambda cls: "nothing")})
    kinds = {"same": same, "less": less, "curves": Curves}
    monkeypatch.setattr(base.studies, "get", kinds.__getitem__)
    monkeypatch.setattr(base.studies, "names", lambda: tuple(kinds))

    def found() -> list[Any]:
        study = Curves()
        return [each["kept"] for each in base.measured_of(study, study.cells(), tmp_path).values()]

    for name, kept, expected in (
        ("less", "too little", []),
        ("same", "theirs", ["theirs"]),
        ("curves", "own", ["own"]),
    ):
        archive.write(tmp_path / name, [{"config": run.to_dict(), "kept": kept}])
        assert found() == expected
