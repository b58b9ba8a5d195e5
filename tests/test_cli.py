"""The command `gala`, as a process: what it accepts, what it refuses and how fast, and what it leaves behind.

Where a process of its own would show nothing more, the command is run in this one, which spares the start of torch.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from galafed.algorithms.base import algorithms
from galafed.benchmarks.base import benchmarks
from galafed.networks import names as network_names
from galafed.runs.records import metrics, record
from galafed.sites.ledger import Ledger
from in_process import gala as gala_here

GALA = str(Path(sys.executable).with_name("gala"))
SMALL = ("--set", "threads=1", "--set", 'sources=["bright", "dark"]', "--set", "device=cpu")


@dataclass(frozen=True)
class Answer:
    """What a process said."""

    code: int
    out: str
    err: str
    seconds: float
    worked: float
    """Seconds of a processor, which other programs on the machine do not lengthen."""

    @property
    def text(self) -> str:
        return self.out + self.err


def work_of_children() -> float:
    """Processor time of all processes started so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def gala(*arguments: str | Path, cwd: Path, command: Sequence[str] = (GALA,), **environment: str) -> Answer:
    """Run the command and wait for it."""
    started, worked = time.perf_counter(), work_of_children()
    done = subprocess.run(
        [*command, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"COLUMNS": "200"} | environment,
    )
    seconds, worked = time.perf_counter() - started, work_of_children() - worked
    return Answer(done.returncode, done.stdout, done.stderr, seconds, worked)


def good(answer: Answer) -> Answer:
    """An answer that must be a success."""
    assert answer.code == 0, answer.text
    assert "Traceback" not in answer.text
    return answer


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs the command in this process, which must be a success; returns what it said."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str | Path) -> str:
        answer = gala_here(capsys, *arguments)
        assert answer.code == 0, answer.out + answer.err
        return answer.out

    return run


def summary(folder: Path) -> dict[str, Any]:
    """summary.json of a run."""
    return dict(json.loads((folder / "summary.json").read_text()))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder for the whole file."""
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def plain(place: Path) -> Answer:
    """`gala run toy` into the folder that it chooses itself."""
    return good(gala("run", "toy", "--set", "threads=1", "--set", "device=cpu", cwd=place))


@pytest.fixture(scope="module")
def finished(place: Path, plain: Answer) -> Path:
    """The folder of that run."""
    (folder,) = [path for path in (place / "runs").iterdir() if not path.name.startswith(".")]
    return folder


# ------------------------------------------------------------------------------------------------------- bad usage

WRONG: list[tuple[list[str], list[str]]] = [
    (["run", "toy", "--set", "sede=1"], ["'sede'", "'seed'", "rounds", "training"]),
    (["run", "toy", "--set", "gala.tua=1"], ["'gala.tua'", "'gala.tau'", "gala.igd"]),
    (["run", "toy", "--set", "training.lrr=1"], ["'training.lrr'", "'training.lr'", "training.momentum"]),
    (["run", "toy", "--set", "training.lr=fast"], ["training.lr", "'fast'", "a number"]),
    (["run", "toy", "--set", "gala.igd=1"], ["gala.igd", "true or false"]),
    (["run", "toy", "--set", "gala=1"], ["gala", "table"]),
    (["run", "toy", "--set", "selection=luck"], ["selection", "luck", "discrepancy", "entropy", "information"]),
    (["run", "toy", "--rounds", "many"], ["rounds", "'many'", "whole number"]),
    (["run", "toy", "--rounds", "1.5"], ["rounds", "1.5", "whole number"]),
    (["run", "toy", "--rounds", "0"], ["rounds", "0", "1 or more"]),
    (["run", "toy", "--seed", "-1"], ["seed", "-1", "0 or more"]),
    (["run", "toy", "--set", "gala.tau=0"], ["gala.tau", "0", "greater than 0"]),
    (["run", "toy", "--set", "gala.tau=1e30"], ["gala.tau", "1e+30", "greater than 0", "at most"]),
    (["run", "toy", "--set", "training.weight_decay=1e30"], ["training.weight_decay", "0 or more", "at most"]),
    (["run", "toy", "--set", "gala.tau=-0.5"], ["gala.tau", "-0.5", "greater than 0"]),
    (["run", "toy", "--set", "gala.tau=nan"], ["gala.tau", "nan", "greater than 0"]),
    (["run", "toy", "--algorithm", "kd3a", "--set", "kd3a.gate_end=1"], ["kd3a.gate_end", "between 0 and 1"]),
    (["run", "toy", "--algorithm", "kd3a", "--set", 'sources=["dark"]'], ["kd3a", "at least 2 sources", "dark"]),
    (["run", "toy", "--algorithm", "shot", "--set", "shot.source_epochs=0"], ["shot.source_epochs", "1 or more"]),
    (["run", "toy", "--set", 'poison.sources=["drak"]'], ["poison.sources", "'drak'", "'dark'"]),
    (["run", "toy", "--set", "poison.share=2"], ["poison.share", "2", "at most 1"]),
    (["run", "toy", "--target", "dark", "--set", 'sources=["dark"]'], ["sources", "'dark'", "target"]),
    (["run", "toy", "--set", 'sources=["dakr"]'], ["sources", "'dakr'", "'dark'", "bright, dark, faint"]),
    (["run", "toy", "--set", "sources=dark"], ["sources", "'dark'", "list"]),
    (["run", "toy", "--target", "drak"], ["target", "'drak'", "'dark'", "bright, dark, faint, inverted, noisy"]),
    (["run", "--target", "nowhere"], ["target", "'nowhere'", *benchmarks.get("mini").domains]),
    (["run", "toy", "--algorithm", "galla"], ["algorithm", "'galla'", "'gala'", *algorithms.names()]),
    (["run", "mnii"], ["benchmark", "'mnii'", "'mini'", "toy"]),
    (["run", "toy", "--engine", "parallel"], ["engine", "'parallel'", "serial"]),
    (["run", "toy", "--set", "network=big"], ["network", "'big'", *network_names()]),
    (["run", "toy", "--device", "gpu"], ["device", "'gpu'", "auto, cpu, cuda"]),
    (["run", "toy", "--out", "a-file"], ["--out", "a-file", "folder"]),
    (["run", "toy", "--out", "a-file/below"], ["--out", "a-file/below", "cannot be written"]),
    (["run", "toy", "--out", "/proc/nope"], ["--out", "/proc/nope", "cannot be written"]),
    (["run", "toy", "--out", "/proc/nope/deeper"], ["--out", "/proc/nope/deeper", "cannot be written"]),
    (["run", "toy", "--config", "none.toml"], ["none.toml", "cannot be read"]),
    (["run", "toy", "--config", "."], [".", "cannot be read"]),
    (["run", "--config", "broken.toml"], ["broken.toml", "not valid TOML"]),
    (["run", "toy", "--config", "fact.toml"], ["fact", "gala"]),
    (["run", "toy", "--set", "novalue"], ["--set novalue", "key=value"]),
    (["run", "toy", "--frobnicate"], ["--frobnicate"]),
    (["run", "toy", "extra"], ["extra"]),
    (["resume", "nothing-here"], ["nothing-here", "no run"]),
    (["resume", "."], [".", "no run"]),
    (["resume"], ["required"]),
    (["show", "nothing-here"], ["nothing-here", "no run"]),
    (["compare"], ["compare", "run"]),
    (["compare", "nothing-here"], ["nothing-here", "no run"]),
    (["ls", "everything"], ["everything", "algorithms", "benchmarks", "engines", "networks", "runs"]),
    (["reproduce", "minni"], ["'minni'", "'mini'"]),
    (["fly"], ["fly", "run", "resume", "show"]),
    ([], ["run", "resume", "show", "compare", "ls"]),
]

WITHOUT_TORCH = """
import contextlib, io, json, sys
from galafed.cli import main
for arguments in json.loads(sys.argv[1]):
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as ended:
            code = ended.code
    heavy = sorted({"torch", "sklearn", "matplotlib", "scipy"} & set(sys.modules))
    print(json.dumps([code, out.getvalue(), err.getvalue(), heavy]), flush=True)
"""


def probe(
    calls: Sequence[Sequence[str]], cwd: Path, code: str = WITHOUT_TORCH
) -> list[tuple[int, str, str, list[str]]]:
    """Exit code, words on both streams and heavy modules loaded so far, of calls of the command in one process."""
    said = good(
        gala(json.dumps([list(map(str, call)) for call in calls]), cwd=cwd, command=(sys.executable, "-c", code))
    )
    return [tuple(json.loads(line)) for line in said.out.splitlines()]


@pytest.fixture(scope="module")
def wrong_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with things that get in the way."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "a-file").write_text("x")
    (folder / "broken.toml").write_text("rounds = \n")
    (folder / "fact.toml").write_text("[fact]\nidd_scale = 1.0\n")
    return folder


@pytest.fixture(scope="module")
def refusals(wrong_place: Path) -> dict[str, tuple[int, str, str, list[str]]]:
    """What each wrong call is answered; none of them may leave anything behind."""
    before = sorted(wrong_place.rglob("*"))
    answers = probe([arguments for arguments, _ in WRONG], wrong_place)
    assert [path for path in sorted(wrong_place.rglob("*")) if path.name != "runs"] == before
    return {" ".join(arguments): answer for (arguments, _), answer in zip(WRONG, answers, strict=True)}


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=[" ".join(["gala", *a]) for a, _ in WRONG])
def test_bad_usage_is_answered_with_a_sentence_before_anything_heavy_is_loaded(
    refusals: dict[str, tuple[int, str, str, list[str]]], arguments: list[str], words: list[str]
) -> None:
    code, out, err, heavy = refusals[" ".join(arguments)]
    assert (code, heavy) == (2, []), out + err
    flat = " ".join(err.split())
    assert [word for word in words if word not in flat] == []


def test_bad_usage_is_answered_at_once(wrong_place: Path) -> None:
    """In at most two and a half times what Python needs for the libraries of a command line: 0.9 to 1.3 were seen.

    Seconds by the clock would tell how fast the machine is, and what else it does.
    """

    def work(*command: str) -> float:
        return min(gala(cwd=wrong_place, command=(sys.executable, *command)).worked for _ in range(3))

    libraries = work("-c", "import numpy, rich.console, tyro")
    answer = gala("run", "toy", "--set", "sede=1", cwd=wrong_place, command=(sys.executable, "-m", "galafed"))
    assert answer.code == 2
    assert "Traceback" not in answer.text
    assert work("-m", "galafed", "run", "toy", "--set", "sede=1") < 2.5 * libraries
    assert work("-c", "import torch") > 2.5 * libraries, "or this would not notice the import of torch"


def test_the_probe_for_heavy_modules_sees_them(place: Path) -> None:
    ((*_, heavy),) = probe([["fly"]], place, code="import torch\n" + WITHOUT_TORCH)
    assert "torch" in heavy


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "toy", "--set", "fact.idd_scale=1"], ["[fact]", "gala"]),
        (["run", "toy", "--target", "[/x]"], ["[/x]", "noisy"]),
        (["run", "toy", "--target", "[bold]"], ["'[bold]'", "noisy"]),
        (["run", "toy", "--config", "[/x].toml"], ["[/x].toml", "cannot be read"]),
        (["resume", "[/x]"], ["[/x]", "no run"]),
    ],
    ids=str,
)
def test_square_brackets_in_a_message_are_shown(wrong_place: Path, arguments: list[str], words: list[str]) -> None:
    answer = gala(*arguments, cwd=wrong_place)
    assert answer.code == 2, answer.text
    assert "Traceback" not in answer.text
    assert [word for word in words if word not in answer.err] == []


@pytest.mark.parametrize("number", ["1" + 400 * "0", 5000 * "1"], ids=len)
def test_an_absurd_number_is_refused_with_a_sentence(wrong_place: Path, number: str) -> None:
    answer = gala("run", "toy", "--set", f"training.lr={number}", cwd=wrong_place)
    assert answer.code == 2, answer.text[-500:]
    assert "Traceback" not in answer.text


def test_a_folder_that_holds_another_run_is_refused_at_once(place: Path, finished: Path) -> None:
    before = (finished / "summary.json").read_bytes()
    answer = gala("run", "toy", "--seed", "4", "--out", finished, cwd=place)
    assert answer.code == 2, answer.text
    assert "--out" in answer.err
    assert "another configuration" in answer.err
    assert "--overwrite" in answer.err
    assert (finished / "summary.json").read_bytes() == before
    ((*_, heavy),) = probe([["run", "toy", "--seed", "4", "--out", str(finished)]], place)
    assert heavy == []


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all my work")
    for more in ((), ("--overwrite",)):
        answer = gala("run", "toy", *SMALL, "--rounds", "1", "--out", "mine", *more, cwd=tmp_path)
        assert (tmp_path / "mine" / "thesis.txt").read_text() == "all my work"
        assert answer.code == 2, answer.text
        assert "--out mine" in answer.err
        assert "Traceback" not in answer.text


def test_an_empty_folder_is_taken(here: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    here("run", "toy", *SMALL, "--rounds", "1", "--out", tmp_path / "mine")
    assert (tmp_path / "mine" / "done").exists()


# ----------------------------------------------------------------------------------------------------- happy paths


def test_a_run_in_a_pipe_says_one_plain_line_a_round(plain: Answer) -> None:
    assert "\x1b" not in plain.text
    assert "\r" not in plain.text
    rounds = [line for line in plain.out.splitlines() if line.startswith("round ")]
    assert [line.split()[1] for line in rounds] == ["1/3", "2/3", "3/3"]
    for line in rounds:
        assert all(word in line for word in ("loss", "discrepancy", "accuracy", "left"))
    assert plain.err == ""


def test_a_run_tells_three_accuracies_apart(plain: Answer, finished: Path) -> None:
    text = plain.out
    assert "last round" in text
    assert "picked by discrepancy" in text
    assert "no labels used" in text
    (best,) = [line for line in text.splitlines() if "best round" in line]
    assert "oracle" in best
    accuracy = summary(finished)["accuracy"]
    assert set(accuracy) == {"last", "selected", "best_oracle"}
    assert all(0 <= value <= 1 for value in accuracy.values())
    assert accuracy["best_oracle"] >= max(accuracy["last"], accuracy["selected"])
    assert len(summary(finished)["selection"]) >= 2


def test_a_run_folder_holds_what_it_promises(finished: Path) -> None:
    assert {path.name for path in finished.iterdir()} >= {
        "config.toml",
        "metrics.jsonl",
        "checkpoints",
        "summary.json",
        "done",
    }
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3]
    for line in lines:
        assert line.keys() >= {"loss", "discrepancy", "accuracy", "relevance", "bytes", "failures", "seconds"}
    assert not list(finished.rglob(".*")), "nothing half-written is left"


def test_a_summary_has_every_key_of_the_contract(finished: Path) -> None:
    found = summary(finished)
    assert found.keys() >= {
        "benchmark",
        "target",
        "sources",
        "algorithm",
        "engine",
        "device",
        "rounds",
        "seed",
        "accuracy",
        "relevance",
        "seconds_per_round",
        "bytes",
        "digest",
    }
    assert (found["benchmark"], found["target"], found["algorithm"]) == ("toy", "noisy", "gala")
    assert (found["engine"], found["device"], found["rounds"], found["seed"]) == ("serial", "cpu", 3, 0)
    assert found["sources"] == ["bright", "dark", "faint", "inverted"]
    assert found["relevance"].keys() == set(found["sources"])
    assert abs(sum(found["relevance"].values()) - 1) < 1e-9
    assert found["bytes"].keys() >= {"source", "server", "target"}
    assert all(found["bytes"][who] > 0 for who in ("source", "server", "target"))
    assert found["seconds_per_round"] > 0
    assert len(found["digest"]) == 64
    assert int(found["digest"], 16) >= 0
    assert (finished / "done").read_text().strip() == found["digest"]


def test_the_fingerprint_is_in_the_name(finished: Path) -> None:
    assert finished.name == f"toy-noisy-gala-s0-{summary(finished)['config_hash'][:8]}"


def test_show_tells_the_summary(place: Path, finished: Path) -> None:
    text = good(gala("show", finished, cwd=place)).out
    for word in ("noisy", "last round", "oracle", "relevance of bright", "traffic", summary(finished)["digest"][:16]):
        assert word in text
    told = json.loads(good(gala("show", finished, "--json", cwd=place)).out)
    assert told["done"] is True
    assert {key: told[key] for key in summary(finished)} == summary(finished)


def test_compare_puts_runs_side_by_side(place: Path, finished: Path) -> None:
    text = good(gala("compare", finished, finished, cwd=place)).out
    assert "oracle" in text
    assert "label-free" in text
    assert text.count("noisy") >= 2
    rows = json.loads(good(gala("compare", finished, "--json", cwd=place)).out)
    assert [row["digest"] for row in rows] == [summary(finished)["digest"]]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("algorithms", algorithms.names()),
        ("benchmarks", benchmarks.names()),
        ("engines", ("flower", "nvflare", "serial", "stacked")),
        ("networks", network_names()),
    ],
)
def test_ls_lists_what_there_is(place: Path, kind: str, expected: Sequence[str]) -> None:
    text = good(gala("ls", kind, cwd=place)).out
    rows = json.loads(good(gala("ls", kind, "--json", cwd=place)).out)
    assert [row["name"] for row in rows] == list(expected)
    assert all(name in text for name in expected)


def test_ls_runs_lists_the_runs(place: Path, finished: Path, tmp_path: Path) -> None:
    assert finished.name[:20] in good(gala("ls", "runs", cwd=place)).out
    rows = json.loads(good(gala("ls", "runs", "--json", cwd=place)).out)
    assert [(Path(row["run"]).name, row["state"]) for row in rows] == [(finished.name, "done")]
    assert json.loads(good(gala("ls", "runs", "--json", cwd=tmp_path)).out) == []
    good(gala("ls", "runs", cwd=tmp_path))


@pytest.fixture
def unfinished(finished: Path, tmp_path: Path) -> Path:
    """The same run, as it was after its second round."""
    folder = tmp_path / "unfinished"
    shutil.copytree(finished, folder)
    for name in ("done", "summary.json"):
        (folder / name).unlink()
    shutil.rmtree(folder / "checkpoints" / "round-00003")
    metrics = folder / "metrics.jsonl"
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:2]))
    return folder


def test_an_unfinished_run_is_shown_as_such(place: Path, unfinished: Path) -> None:
    answer = good(gala("show", unfinished, cwd=place))
    assert "2 of 3 rounds" in " ".join(answer.out.split())
    assert "gala resume" in " ".join(answer.out.split())
    told = json.loads(good(gala("show", unfinished, "--json", cwd=place)).out)
    assert (told["done"], told["rounds_done"]) == (False, 2)
    answer = gala("compare", unfinished, cwd=place)
    assert answer.code == 2
    assert "not finished" in answer.err
    rows = json.loads(good(gala("ls", "runs", "--folder", unfinished.parent, "--json", cwd=place)).out)
    assert [row["state"] for row in rows] == ["2/3"]


def test_resume_and_the_same_command_again_go_on(
    here: Callable[..., str], finished: Path, unfinished: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(unfinished, copy)
    said = here("resume", unfinished)
    assert "going on after round 2" in said
    assert "round   1/3" not in said
    assert summary(unfinished)["digest"] == summary(finished)["digest"]
    again = here("run", "toy", "--set", "threads=1", "--set", "device=cpu", "--out", copy)
    assert "round   1/3" not in again
    assert summary(copy)["digest"] == summary(finished)["digest"]


def test_a_finished_run_is_told_and_not_repeated(
    here: Callable[..., str], place: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)  # where the run chose its folder, and finds it again
    stamps = {path: path.stat().st_mtime_ns for path in finished.rglob("*.safetensors")}
    told = summary(finished)
    for arguments in (["run", "toy", "--set", "threads=1", "--set", "device=cpu"], ["resume", str(finished)]):
        said = here(*arguments)
        assert not [line for line in said.splitlines() if line.startswith("round ")]
        assert told["digest"][:16] in said
    assert summary(finished) == told
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*.safetensors")} == stamps


@pytest.mark.parametrize("text", ["{", "[1]", "{}", '{"accuracy": {}}', "\xff"])
def test_a_damaged_summary_of_a_finished_run_is_no_traceback(
    capsys: pytest.CaptureFixture[str], finished: Path, tmp_path: Path, text: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / "summary.json").write_text(text, encoding="latin-1")
    assert gala_here(capsys, "show", folder).code == 3
    assert "damaged" in gala_here(capsys, "ls", "runs", "--folder", tmp_path).out
    assert gala_here(capsys, "resume", folder).code == 0
    assert gala_here(capsys, "show", folder).code == 0


def test_a_damaged_line_ends_metrics_and_is_left_out_of_ledgers(
    capsys: pytest.CaptureFixture[str], finished: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    for path in (folder / "metrics.jsonl", *(folder / "ledger").iterdir()):
        path.write_text(path.read_text() + '{"time": 3')
    (folder / "done").unlink()
    assert len(metrics(folder)) == record(folder)["rounds_done"] == len(metrics(finished))
    assert gala_here(capsys, "audit", folder).code == 0


def test_an_audit_that_is_not_whole_is_told(capsys: pytest.CaptureFixture[str], finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    one, other, *_ = sorted((folder / "ledger").iterdir())
    lines = ["{}" if '"out"' in line else line for line in one.read_text().splitlines()]
    one.write_text("\n".join(lines) + "\n")
    other.write_text("x\n")
    found = gala_here(capsys, "audit", folder)
    assert found.code == 3
    told = ", ".join(str(number) for number, line in enumerate(lines, start=1) if line == "{}")
    assert f"{one}: left out, for they cannot be read: line {told}; restore the file from a copy" in found.err
    assert f"{other}: left out, for they cannot be read: line 1;" in found.err


def test_a_ledger_that_a_kill_has_cut_short_goes_on(
    capsys: pytest.CaptureFixture[str], finished: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    path, *_ = sorted((folder / "ledger").iterdir())
    whole = Ledger(path).read()
    assert whole[1:] == ([], [])
    path.write_text(path.read_text()[:-40])
    Ledger(path).write(*whole.lines[-2:])
    cut = Ledger(path).read()
    assert cut.lines == [*whole.lines[:-1], *whole.lines[-2:]]
    assert (cut.cut, cut.damaged) == ([len(whole.lines)], [])
    found = gala_here(capsys, "audit", folder)
    assert found.code == 0
    assert f"line {len(whole.lines)}, cut short, as by a kill" in found.err


@pytest.mark.parametrize(
    "verb", [("report", "RUN", "--out"), ("compare", "RUN", "--html"), ("predict", "RUN", "--csv")]
)
def test_a_folder_in_place_of_a_file_is_told(
    capsys: pytest.CaptureFixture[str], finished: Path, verb: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished.parent)
    Image.new("RGB", (8, 8)).save("x.png")
    arguments = [str(finished) if word == "RUN" else word for word in verb]
    files = ["x.png"] if verb[0] == "predict" else []
    found = gala_here(capsys, *arguments[:2], *files, arguments[2], ".")
    assert found.code == 2
    assert ".: is a folder; name a file in it" in found.err


def test_a_name_that_is_too_long_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = gala_here(capsys, "show", "x" * 300)
    assert found.code == 2
    assert "the name is too long" in found.err


def test_the_seed_decides_and_what_is_logged_does_not(here: Callable[..., str], tmp_path: Path) -> None:
    def digest(name: str, *arguments: str) -> str:
        here("run", "toy", *SMALL, "--rounds", "3", "--out", tmp_path / name, *arguments)
        return str(summary(tmp_path / name)["digest"])

    one = digest("one")
    assert digest("seldom", "--set", "evaluate_every=3", "--set", "keep_checkpoints=1") == one
    lines = [json.loads(line) for line in (tmp_path / "seldom" / "metrics.jsonl").read_text().splitlines()]
    assert [line["accuracy"] is None for line in lines] == [True, True, False]
    assert len(list((tmp_path / "seldom" / "checkpoints").iterdir())) == 1
    assert len(list((tmp_path / "one" / "checkpoints").iterdir())) == 3
    (tmp_path / "one" / "checkpoints" / "stray").write_text("x")
    assert digest("one", "--seed", "1", "--overwrite") != one
    assert digest("one", "--overwrite") == one
    assert not (tmp_path / "one" / "checkpoints" / "stray").exists()


def test_settings_come_from_a_file_too(here: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(
        'benchmark = "toy"\nrounds = 1\nthreads = 1\nsources = ["bright", "dark"]\nalgorithm = "fact"\n'
        "[fact]\nidd_scale = 0.5\n"
    )
    here("run", "--config", tmp_path / "my.toml", "--out", tmp_path / "run", "--target", "faint")
    found = summary(tmp_path / "run")
    assert (found["algorithm"], found["target"], found["rounds"]) == ("fact", "faint", 1)


def test_a_saved_configuration_makes_the_same_run(here: Callable[..., str], finished: Path, tmp_path: Path) -> None:
    here("run", "--config", finished / "config.toml", "--out", tmp_path / "again")
    assert summary(tmp_path / "again")["digest"] == summary(finished)["digest"]


def test_the_version_is_told(place: Path) -> None:
    assert good(gala("--version", cwd=place)).out.startswith("galafed ")
    assert "run" in good(gala("--help", cwd=place)).out


@pytest.mark.parametrize("verb", [["ls", "algorithms"], ["ls", "algorithms", "--json"], ["show"], ["show", "--json"]])
@pytest.mark.parametrize("reader", ["head -1 >/dev/null", "true"])
def test_a_reader_that_goes_away_is_no_error(place: Path, finished: Path, verb: list[str], reader: str) -> None:
    command = " ".join([GALA, verb[0], *([str(finished)] if verb[0] == "show" else []), *verb[1:]])
    script = f"set -o pipefail; {command} | {{ {reader}; }}"
    for _ in range(2):
        done = subprocess.run(["bash", "-c", script], cwd=place, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        assert "BrokenPipe" not in done.stderr


def test_a_run_whose_reader_goes_away_leaves_no_traceback(here: Callable[..., str], tmp_path: Path) -> None:
    command = " ".join([GALA, "run", "toy", "--set", "threads=1", "--out", "run"])
    script = f"{command} | head -1"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    here("resume", tmp_path / "run")
    assert summary(tmp_path / "run")["rounds"] == 3


def test_a_terminal_gets_a_live_panel(tmp_path: Path) -> None:
    # Many rounds: some words are there for a moment in each, and the panel is drawn a few times a second.
    script = f"{GALA} run toy --set threads=1 --rounds 40 --out run"
    command = [sys.executable, "-c", "import pty, sys; sys.exit(pty.spawn(['bash', '-c', sys.argv[1]]) >> 8)", script]
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    done = subprocess.run(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=environment
    )
    text = done.stdout.decode()
    assert done.returncode == 0, text[-800:]
    assert "\x1b" in text
    for word in ("local training", "relevance to the target", "left", "bright", "█"):
        assert word in text


@pytest.mark.parametrize("engine", ["serial", "stacked"])
def test_statistics_that_overflow_are_told_and_undone(
    engine: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With such a rate losses stay finite, for they are bounded, and the variances of layers do not."""
    answer = gala_here(
        capsys, "run", "toy", "--set", "training.lr=1e3", "--engine", engine, *SMALL, "--out", tmp_path / "run"
    )
    assert answer.code == 5
    said = " ".join(answer.err.split())
    assert "noisy: align refused: what it trained cannot be averaged" in said
    assert "lower the learning rate" in said
    assert not (tmp_path / "run" / "done").exists()


def test_the_folder_one_is_in_is_refused(tmp_path: Path) -> None:
    for out in (".", str(tmp_path)):
        done = gala("run", "toy", "--out", out, cwd=tmp_path)
        assert done.code == 2
        assert "name a new one" in done.err
        assert not done.err.count("Traceback")
    assert not list(tmp_path.iterdir())


def test_output_for_which_the_disk_has_no_room_is_told(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "galafed", "ls", "algorithms"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert "the output could not be written, for its disk is full" in done.stderr
    assert "Traceback" not in done.stderr


def test_names_in_brackets_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    from galafed.report.tables import listing, summary_table

    console = Console(width=200, record=True)
    console.print(listing([{"run": "runs/v[one]", "target": "cam[red]"}]))
    bytes_of = dict.fromkeys(("source", "target", "server"), 1)
    found = {
        "accuracy": {"last": 0.5, "selected": 0.5, "best_oracle": 0.5}, "notes": {}, "target": "cam[red]",
        "benchmark": "folder", "algorithm": "gala", "seed": 0, "selection": {}, "best_oracle_round": 1,
        "relevance": {"cam[blue]": 1.0}, "seconds_per_round": 1.0, "device": "cpu", "engine": "serial", "failures": 0,
        "bytes": {**bytes_of, "all": bytes_of}, "digest": "0" * 64,
    }  # fmt: skip
    console.print(summary_table(found))
    text = console.export_text()
    assert "runs/v[one]" in text
    assert text.count("cam[red]") == 2
    assert "relevance of cam[blue]" in text
