"""Several studies in one queue: each run once, put down as soon as it is done, and no study stops another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from galafed.config import Run, resolve
from galafed.errors import ConfigError, DataError, GalafedError, SaveError
from galafed.reproduction import together
from galafed.reproduction.agenda import turns
from galafed.runs import archive, sharing
from galafed.runs.workers import CallError, ProcessLostError
from galafed.studies import base
from galafed.studies.base import Cell, Study
from in_process import done_here


def run_of(seed: int) -> Run:
    values = {"benchmark": "toy", "rounds": 1, "device": "cpu", "threads": 1, "algorithm": "source_only"}
    return resolve({**values, "seed": seed})


class Seeds(Study):
    """A row for each seed."""

    seeds: tuple[int, ...] = ()
    title = "Seeds"

    def cells(self) -> list[Cell]:
        return [Cell(f"seed {seed}", "toy", run_of(seed)) for seed in self.seeds]

    def write(self, folder: Path, done: Sequence[tuple[Cell, Mapping[str, Any]]], *, command: str) -> list[Path]:
        (folder / "table").write_text(" ".join(cell.row for cell, _ in done) + f" by {command}")
        return [folder / "table"]


class Waiting(Seeds):
    """Wants a result of the first before it knows its runs."""

    def prepare(self, out: Path) -> None:
        if not (out / "first" / "table").exists():
            raise ConfigError("first of all the first")


class Failing(Seeds):
    """Cannot draw what it has."""

    def write(self, folder: Path, done: Sequence[tuple[Cell, Mapping[str, Any]]], *, command: str) -> list[Path]:
        raise DataError("no font")


class Unresolvable(Seeds):
    """Wants an algorithm that is not there any more."""

    def cells(self) -> list[Cell]:
        raise ConfigError("algorithm 'gone' is not known")


STUDIES: dict[str, type[Seeds]] = {
    "first": type("First", (Seeds,), {"name": "first", "seeds": (0, 2)}),
    "second": type("Second", (Seeds,), {"name": "second", "seeds": (1, 2, 3)}),
    "waiting": type("Third", (Waiting,), {"name": "waiting", "seeds": (2,)}),
    "failing": type("Fourth", (Failing,), {"name": "failing", "seeds": (0,)}),
    "gone": type("Fifth", (Unresolvable,), {"name": "gone"}),
}


@pytest.fixture(autouse=True)
def _these_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base.studies, "get", STUDIES.__getitem__)
    monkeypatch.setattr(base.studies, "names", lambda: tuple(STUDIES))
    monkeypatch.setattr(sharing, "shared_out", done_here)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # a run sets it for its process


def reproduce(tmp_path: Path, *names: str, **settings: Any) -> list[str]:
    said: list[str] = []
    values = {"minutes": 0, "jobs": 2, "place": {}, "out": tmp_path / "out", "work": tmp_path / "work"}
    base.reproduce(*names, **{**values, "say": said.append, **settings})
    return said


def seeds_of(tmp_path: Path, name: str) -> list[int]:
    return sorted(found["seed"] for found in archive.read(tmp_path / "out" / name).values())


def test_studies_share_a_queue_and_a_run_that_two_need_is_made_once(tmp_path: Path) -> None:
    said = reproduce(tmp_path, "first", "second")
    assert said[:2] == ["Seeds: 2 runs, 0 measured, 2 to do", "Seeds: 3 runs, 0 measured, 3 to do"]
    done = [line.split()[:2] for line in said[2:]]
    assert done == [[f"{number}/4", run_of(number - 1).run_name] for number in (1, 2, 3, 4)]  # seed after seed
    assert (seeds_of(tmp_path, "first"), seeds_of(tmp_path, "second")) == ([0, 2], [1, 3])
    assert (tmp_path / "out/first/table").read_text() == "seed 0 seed 2 by gala reproduce first"
    assert (tmp_path / "out/second/table").read_text() == "seed 1 seed 2 seed 3 by gala reproduce second"


def test_rows_are_those_of_any_of_the_studies(tmp_path: Path) -> None:
    reproduce(tmp_path, "first", "second", rows=["seed 0", "seed 3"])
    assert (seeds_of(tmp_path, "first"), seeds_of(tmp_path, "second")) == ([0], [3])
    with pytest.raises(ConfigError, match=r"--rows 'seed 9' is not known.*Accepted: seed 0, seed 2, seed 1, seed 3"):
        reproduce(tmp_path, "first", "second", rows=["seed 9"])


def test_folders_that_take_no_file_are_told_before_any_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "shared_out", lambda calls, jobs: pytest.fail("runs were begun"))
    taken = tmp_path / "taken"
    taken.touch()
    for option in ("out", "work"):
        for place in (taken, taken / "below"):
            with pytest.raises(SaveError, match=f"{place} could not be written: (File exists|Not a directory)"):
                reproduce(tmp_path, "first", **{option: place})


def test_a_claim_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "run.lock").mkdir()
    with pytest.raises(SaveError, match=r"run\.lock could not be written"), sharing._claimed(tmp_path / "run"):
        pass


def test_a_run_is_put_down_as_soon_as_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def look(calls: Any, jobs: int) -> Any:
        for answer in done_here(calls, jobs):
            yield answer
            found.append((seeds_of(tmp_path, "first"), (tmp_path / "out/first/table").exists()))

    monkeypatch.setattr(sharing, "shared_out", look)
    reproduce(tmp_path, "first")
    assert found == [([0], False), ([0, 2], False)]


def test_one_study_that_fails_stops_no_other_and_is_told(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(DataError, match="no font"):
        reproduce(tmp_path, "failing", "second", say=said.append)
    assert "failing: no font" in said
    assert (tmp_path / "out/second/table").exists()
    assert seeds_of(tmp_path, "failing") == [0]
    with pytest.raises(DataError, match="no font"):
        reproduce(tmp_path, "failing")


def test_what_is_done_is_kept_when_runs_fail_or_are_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = together.carry_out
    for problem in (GalafedError("1 of 4 runs failed"), KeyboardInterrupt()):

        def only_the_first(runs: Sequence[Run], work: Path, problem: BaseException = problem, **rest: Any) -> None:
            whole(runs[:1], work, **rest)
            raise problem

        monkeypatch.setattr(together, "carry_out", only_the_first)
        with pytest.raises(type(problem)):
            reproduce(tmp_path, "first", "second")
    assert (tmp_path / "out/first/table").read_text().startswith("seed 0 by")
    assert (tmp_path / "out/second/table").read_text().startswith("seed 1 by")


def test_what_waits_for_another_study_comes_after_it(tmp_path: Path) -> None:
    found = []
    for names in turns(("waiting", "second", "first"), tmp_path / "out"):
        found.append(list(names))
        reproduce(tmp_path, *names)
    assert found == [["second", "first"], ["waiting"]]
    assert list(turns(("waiting", "first"), tmp_path / "out")) == [["waiting", "first"]]
    assert seeds_of(tmp_path, "waiting") == []  # its run was the second study's
    assert (tmp_path / "out/waiting/table").read_text().startswith("seed 2")


def test_a_run_that_cannot_be_read_back_keeps_no_other_from_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoiled(calls: Any, jobs: int) -> Any:
        for number, answer in done_here(calls, jobs):
            if number == 0:
                (tmp_path / "work" / run_of(0).run_name / "summary.json").write_text("{")
            yield number, answer

    monkeypatch.setattr(sharing, "shared_out", spoiled)
    said: list[str] = []
    with pytest.raises(DataError, match=r"summary\.json cannot be read"):
        reproduce(tmp_path, "first", say=said.append)
    assert seeds_of(tmp_path, "first") == [2]
    assert (tmp_path / "out/first/table").read_text().startswith("seed 2 by")
    assert f"wrote {tmp_path / 'out/first/table'}" in said  # also where it does not end well


def test_a_run_that_fails_in_a_way_nobody_thought_of_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(calls: Any, jobs: int) -> Any:
        for number, answer in done_here(calls[1:], jobs):
            yield number + 1, answer
        yield 0, CallError("KeyError: 'loss'")

    monkeypatch.setattr(sharing, "shared_out", odd)
    with pytest.raises(GalafedError, match=r"1 of 2 runs failed, the first: .*-s0-.*: KeyError: 'loss'"):
        reproduce(tmp_path, "first")
    assert (tmp_path / "out/first/table").read_text().startswith("seed 2 by")


def test_runs_whose_process_was_killed_go_on_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs_of = []

    def full(calls: Any, jobs: int) -> Any:
        jobs_of.append(jobs)
        if jobs == 1:
            return done_here(calls, jobs)
        return ((number, ProcessLostError("killed")) for number, _ in enumerate(calls))

    monkeypatch.setattr(sharing, "shared_out", full)
    said = reproduce(tmp_path, "first")
    assert jobs_of == [2, 1]
    assert "2 runs that the GPU or memory has failed go on now, one at a time" in said
    assert seeds_of(tmp_path, "first") == [0, 2]


@pytest.mark.parametrize("rows", [(), ("seed 0",)])
def test_a_study_whose_runs_cannot_be_resolved_is_named_and_stops_no_other(tmp_path: Path, rows: Sequence[str]) -> None:
    said: list[str] = []
    with pytest.raises(ConfigError, match="algorithm 'gone' is not known"):
        reproduce(tmp_path, "gone", "first", rows=rows, say=said.append)
    assert "gone: algorithm 'gone' is not known" in said
    assert (tmp_path / "out/first/table").read_text().startswith("seed 0")


def test_it_is_listed_with_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CONTENTS", ())
    (row,) = [row for row in base.progress(tmp_path) if row["name"] == "gone"]
    assert row["title"] == "Seeds (its runs cannot be resolved: algorithm 'gone' is not known)"
    assert (row["measured"], row["runs"]) == (0, 0)


def test_what_is_kept_of_a_run_may_fail_for_lack_of_memory_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keeps(self: Seeds, folder: Path) -> Mapping[str, Any]:
        if self.name == "first":
            raise RuntimeError("out of memory")
        return {}

    monkeypatch.setattr(Seeds, "keeps", keeps)
    monkeypatch.setattr(STUDIES["first"], "kept_by", classmethod(lambda cls: "first"))
    said: list[str] = []
    with pytest.raises(DataError, match=r"could not be computed \(out of memory\); the same command tries again"):
        reproduce(tmp_path, "first", "second", say=said.append)
    assert seeds_of(tmp_path, "second") == [1, 2, 3]
    monkeypatch.undo()


def test_the_damaged_archive_of_one_study_stops_no_other(tmp_path: Path) -> None:
    (tmp_path / "out" / "waiting").mkdir(parents=True)
    (tmp_path / "out" / "waiting" / "runs.jsonl").write_text("{")

    class Damaged(Seeds):
        def prepare(self, out: Path) -> None:
            archive.read(out / "waiting")

    STUDIES["damaged"] = type("Sixth", (Damaged,), {"name": "damaged", "seeds": (5,)})
    try:
        assert [list(each) for each in turns(["damaged", "gone"], tmp_path / "out")] == [["gone"], ["damaged"]]
    finally:
        del STUDIES["damaged"]


def test_a_folder_that_holds_something_else_is_told_and_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "work" / run_of(0).run_name
    folder.mkdir(parents=True)
    (folder / "notes").write_text("mine")
    with pytest.raises(GalafedError, match=r"1 of 2 runs failed.*: holds files but no run that could be gone on with"):
        reproduce(tmp_path, "first")
    assert [path.name for path in folder.iterdir()] == ["notes"]
    assert seeds_of(tmp_path, "first") == [2]


def test_a_run_that_studies_want_in_different_places_is_made_once(tmp_path: Path) -> None:
    class Elsewhere(Seeds):
        def cells(self) -> list[Cell]:
            return [Cell("seed 0", "toy", resolve({**run_of(0).to_dict(), "engine": "stacked"}))]

    STUDIES["elsewhere"] = type("Seventh", (Elsewhere,), {"name": "elsewhere"})
    try:
        reproduce(tmp_path, "first", "elsewhere")
        assert len(list((tmp_path / "work").glob("*-s0-*/done"))) == 1
        assert (tmp_path / "out/elsewhere/table").read_text().startswith("seed 0")
    finally:
        del STUDIES["elsewhere"]
