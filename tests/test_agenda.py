"""Several studies by one command: one budget of time, and one that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from galafed.cli import main
from galafed.errors import DataError
from galafed.reproduction.agenda import lacking, work_through
from galafed.studies import base

RESULTS = Path(__file__).parent.parent / "results"


class Clock:
    """Seconds that pass when somebody works."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.left: dict[str, float] = {}

    def __call__(self) -> float:
        return self.now

    def work(self, names: Sequence[str], minutes: float) -> Sequence[Path]:
        """Two minutes of work."""
        self.left["+".join(names)] = minutes
        self.now += 120
        return [Path(name) for name in names]


def test_studies_share_the_minutes_and_those_that_were_not_begun_are_told() -> None:
    clock, said = Clock(), list[str]()
    paths = work_through([["a", "b"], ["c"], ["d"], ["e"]], clock.work, minutes=3, say=said.append, clock=clock)
    assert list(paths) == [Path("a"), Path("b"), Path("c")]
    assert clock.left == {"a+b": 3, "c": 1}
    assert said == ["time is up; not begun: d, e"]


def test_no_minutes_are_no_limit() -> None:
    clock = Clock()
    assert len(list(work_through([["a"], ["b"], ["c"]], clock.work, minutes=0, say=print, clock=clock))) == 3
    assert clock.left == dict.fromkeys("abc", 0)


def test_a_study_that_fails_does_not_stop_the_others_and_is_told_in_the_end() -> None:
    def work(names: Sequence[str], minutes: float) -> Sequence[Path]:
        if "b" in names:
            raise DataError("no images")
        return [Path(name) for name in names]

    said, written = list[str](), list[Path]()
    with pytest.raises(DataError, match="no images"):
        written.extend(work_through([["a"], ["b"], ["c"]], work, minutes=0, say=said.append))
    assert written == [Path("a"), Path("c")]
    assert said == ["b: no images"]
    said.clear()
    with pytest.raises(DataError, match="no images"):
        list(work_through([["b"]], work, minutes=0, say=said.append))
    assert said == []  # the error alone says it


def test_all_that_is_lacking_and_all_tables_from_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = ("similarity", "sweep", "traffic")
    for name in measured:
        (tmp_path / name).mkdir()
        (tmp_path / name / "runs.jsonl").write_bytes((RESULTS / name / "runs.jsonl").read_bytes())
    assert set(lacking(tmp_path)) == set(base.studies.names()) - set(measured)
    with pytest.raises(SystemExit, match="0"):
        main(["reproduce", "--all", "--table", "--out", str(tmp_path), "--work", str(tmp_path / "none")])
    for name in measured:
        assert (tmp_path / name / "table.json").read_text() == (RESULTS / name / "table.json").read_text()
    told = capsys.readouterr().out
    assert "gala reproduce samples draws it again" in told
    assert told.count(" to do\n") + told.count("nothing was measured yet") == len(base.studies.names()) - 1


@pytest.mark.parametrize("option", [["--check", "0"], ["--set", "a=1"]])
def test_what_belongs_to_one_study_is_refused_for_several(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", "traffic", "weights", *option])
    assert f"{option[0]} belongs to one study, and here are 2" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--check", "0"], ["--table"], ["--rows", "GALA"], ["--set", "a=1"]])
def test_what_belongs_to_a_study_is_refused_without_one(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", *option])
    found = capsys.readouterr()
    assert (ended.value.code, found.out) == (2, "")
    assert f"{option[0]} belongs to a study, and none is named" in found.err


@pytest.mark.parametrize("whole", ["--summary", "--list"])
@pytest.mark.parametrize("option", [["traffic"], ["--all"], ["--check", "0"], ["--table"], ["--rows", "GALA"]])
def test_what_is_of_all_studies_takes_nothing_that_is_of_some(
    whole: str, option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", *option, whole, "--out", str(tmp_path)])
    assert ended.value.code == 2
    assert f"has nothing to do with {whole}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_study_that_is_named_twice_is_done_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "weights").mkdir()
    with pytest.raises(SystemExit):
        main(["reproduce", "weights", "weights", "--table", "--out", str(tmp_path), "--work", str(tmp_path)])
    assert capsys.readouterr().out.count("Relevance of the sources over rounds") == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_machine_without_a_gpu_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")]
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "mini", "--rows", "GALA", "--device", "cuda", *where])
    found = capsys.readouterr()
    assert ended.value.code == 2
    assert found.err.count("no usable CUDA device") == 1
    assert "failed" not in found.out
    assert not (tmp_path / "work").exists()


def test_a_slip_is_told_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", "traffic", "wieghts", "--table", "--out", str(tmp_path)])
    found = capsys.readouterr()
    assert "'wieghts'" in found.err
    assert "Bytes of a round" not in found.out


SLIPS = [
    (["--device", "gpu"], "--device = 'gpu': accepted are auto, cpu, cuda, cuda:N"),
    (["--engine", "stakced"], "--engine 'stakced' is not known. Did you mean 'stacked'?"),
    (["--minutes", "nan"], "--minutes = nan: must be 0 or more"),
    (["--minutes", "-1"], "--minutes = -1.0: must be 0 or more"),
    (["--jobs", "0"], "--jobs = 0: must be 1 or more"),
]


@pytest.mark.parametrize(("option", "words"), SLIPS)
@pytest.mark.parametrize("study", ["traffic", "runtime"])  # of runs, and one that measures by itself
def test_a_slip_in_an_option_is_told_before_any_work(
    study: str, option: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", study, *option, "--out", str(tmp_path), "--work", str(tmp_path)])
    found = capsys.readouterr()
    assert (ended.value.code, found.out) == (2, "")
    assert words in found.err
