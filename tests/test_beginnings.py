"""How runs begin, and that those that cannot begin spoil nothing and leave nothing behind."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from galafed.algorithms.gala import Gala
from galafed.config import Run, resolve
from galafed.engines.serial import Serial
from galafed.errors import ConfigError, QuorumError, SaveError
from galafed.runs import checkpoint as checkpoints
from galafed.runs import sharing
from galafed.runs.files import new_folder
from galafed.runs.folders import CHECKPOINTS
from galafed.runs.runner import Observer, resume, start


def config(**values: Any) -> Run:
    return resolve({"benchmark": "toy", "rounds": 1, "device": "cpu", "threads": 1, **values})


def too_few(*_: object) -> None:
    raise QuorumError("nobody is there")


def test_a_run_is_overwritten_only_when_the_new_one_can_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    before = start(config(), folder).summary["digest"]
    with monkeypatch.context() as patch:
        patch.setattr(Gala, "start", too_few)
        with pytest.raises(QuorumError):
            start(config(seed=1), folder, overwrite=True)
    assert resume(folder).summary["digest"] == before
    assert start(config(seed=1), folder, overwrite=True).summary["digest"] != before


def no_space(*_: object) -> None:
    raise SaveError("the disk is full. What was saved before is intact")


def test_a_run_is_overwritten_only_when_the_new_one_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    before = start(config(), folder).summary["digest"]
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "save", no_space)
        with pytest.raises(SaveError):
            start(config(seed=1), folder, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert resume(folder).summary["digest"] == before


@pytest.mark.parametrize("refused", ["run", ".part"])
def test_a_run_that_cannot_be_replaced_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    """The old run is put aside, which a mount point refuses; then the new one is given its name."""
    folder = tmp_path / "run"
    before = start(config(), folder).summary["digest"]
    put = os.replace

    def busy(old: Path, new: Path) -> None:
        if Path(old).name.endswith(refused) and Path(old).parent == tmp_path:
            raise OSError(errno.EBUSY, "Device or resource busy")
        put(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", busy)
        with pytest.raises(SaveError, match="busy"):
            start(config(seed=1), folder, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert resume(folder).summary["digest"] == before


def test_what_is_no_run_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    (project / "checkpoints").mkdir(parents=True)
    (project / "config.toml").write_text("lr = 1\n")  # other programs have such files, too
    link = tmp_path / "link"
    start(config(), tmp_path / "run")
    link.symlink_to(tmp_path / "run")
    for folder in (project, link):
        with pytest.raises(ConfigError, match="no run that could be overwritten"):
            start(config(seed=1), folder, overwrite=True)
    monkeypatch.chdir(tmp_path / "run" / "checkpoints")
    with pytest.raises(ConfigError, match="is the folder you are in, or around it"):
        start(config(seed=1), Path(".."), overwrite=True)
    assert (project / "checkpoints").is_dir()
    assert start(config(), Path("..")).folder == Path("..")  # nothing is removed: the finished run is told


def test_the_engine_of_a_run_that_cannot_begin_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Serial] = []
    monkeypatch.setattr(Gala, "start", too_few)
    monkeypatch.setattr(Serial, "close", lambda engine: closed.append(engine))
    with pytest.raises(QuorumError):
        start(config(), tmp_path / "run")
    assert len(closed) == 1
    assert not (tmp_path / "run").exists()


def test_a_folder_that_another_process_makes_meanwhile_is_told_as_that(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(ConfigError, match="another process has made it meanwhile"), new_folder(run):
        (run / "checkpoints").mkdir(parents=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("between", [True, False])
def test_a_process_that_is_killed_while_it_overwrites_leaves_nothing_for_good(tmp_path: Path, between: bool) -> None:
    """Between the two renames, or after both: the old run lies aside until there is a new one in its place."""
    code = f"""
import os
from pathlib import Path
from galafed.runs.files import new_folder
replace = os.replace
def killed(old, new):
    replace(old, new)
    if str(new).endswith(".before") is {between}:
        os.kill(os.getpid(), 9)
os.replace = killed
with new_folder(Path("run"), replace=True) as folder:
    (folder / "new").touch()
"""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "old").touch()
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == -9
    (aside,) = tmp_path.glob(".run.*.before")
    assert (aside / "old").exists()
    assert (tmp_path / "run" / "new").exists() is not between
    with new_folder(tmp_path / "run", replace=True) as folder:
        (folder / "newest").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["newest"]


def without_locks(*_: object) -> None:
    raise OSError(errno.ENOSYS, "Function not implemented")


def test_a_run_needs_no_locks_but_sharing_runs_out_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", without_locks)
    start(config(), tmp_path / "run")
    assert (tmp_path / "run" / "done").exists()
    with pytest.raises(SaveError, match=r"the file system has no locks .*--work"), sharing._claimed(tmp_path / "other"):
        pass


def test_damaged_checkpoints_of_later_rounds_push_out_no_new_ones(tmp_path: Path) -> None:
    folder = tmp_path / CHECKPOINTS
    names = [f"round-{number:05d}" for number in (4, 5, 6, 9, 10)]
    for name in names:
        (folder / name).mkdir(parents=True)
    # 9 and 10 are damaged: the run went on from 4, and has done the rounds 5 and 6.
    checkpoints.prune(tmp_path, done=6, keep=2)
    assert [path.name for path in checkpoints.existing(tmp_path)] == names[1:]
    checkpoints.prune(tmp_path, done=10, keep=2)
    assert [path.name for path in checkpoints.existing(tmp_path)] == names[3:]


def test_a_checkpoint_of_another_format_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "FORMAT", 2)
        start(config(), tmp_path / "run")
    with pytest.raises(checkpoints.DamagedError, match="format 2, of another version"):
        checkpoints.load(checkpoints.existing(tmp_path / "run")[-1])


def test_the_metrics_of_a_finished_run_are_whole(tmp_path: Path) -> None:
    class Losing(Observer):
        def round_done(self, line: Any) -> None:
            (tmp_path / "run" / "metrics.jsonl").write_text("")  # what a power cut may leave of lines just added

    start(config(rounds=3), tmp_path / "run", Losing())
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 3
