"""Cells that are run again with a seed of the reader's: what there was no time for is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from galafed.cli import main
from galafed.config import Run
from galafed.reproduction import checking
from galafed.runs import sharing
from in_process import done_here

RESULTS = Path(__file__).parent.parent / "results"


def check(tmp_path: Path, *more: str) -> int:
    """The exit code of a check of two cells of the embedded benchmark."""
    cells = ["mini", "--rows", "GALA", "--columns", "hand", "type", "--check", "7"]
    with pytest.raises(SystemExit) as end:
        main(["reproduce", *cells, "--out", str(RESULTS), "--work", str(tmp_path), *more])
    assert isinstance(end.value.code, int)
    return end.value.code


def test_a_check_that_ran_nothing_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sharing, "shared_out", done_here)
    assert check(tmp_path, "--minutes", "1e-9") == 2
    told = capsys.readouterr()
    reason = "2 of 2 cells were not run: --minutes 1e-09 were over, or another command works on them"
    assert f"nothing was checked, for {reason}; allow more minutes" in " ".join(told.err.split())
    assert "within 1 point" not in told.out


def test_a_check_tells_how_many_cells_it_did_not_get_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def only_the_first(runs: Sequence[Run], work: Path, **rest: Any) -> None:
        folder = work / runs[0].run_name
        folder.mkdir()
        (folder / "config.toml").write_text(tomli_w.dumps(runs[0].to_dict()))
        known = {key: getattr(runs[0], key) for key in ("benchmark", "target", "algorithm", "rounds", "seed")}
        (folder / "summary.json").write_text(json.dumps(known | {"accuracy": {"last": 0.5}, "digest": ""}))
        (folder / "done").touch()

    monkeypatch.setattr(checking, "carry_out", only_the_first)
    assert check(tmp_path) == 0
    told = capsys.readouterr().out
    assert "1 of 2 cells were not run: another command works on them; the same command goes on with them" in told
    assert "0 of 1 within 1 point" in told


def test_a_check_wants_another_seed_and_to_measure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, "--check", "0") == 2
    assert "--check 0: that seed is among those measured; give one that is not" in " ".join(
        capsys.readouterr().err.split()
    )
    assert check(tmp_path, "--table") == 2
    assert "--table measures nothing, and --check measures" in capsys.readouterr().err
