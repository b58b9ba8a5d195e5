"""The benchmarks of speed run, with sizes at which they measure nothing worth telling."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parent.parent / "benchmarks"
SMALL = ("--images", "16", "--side", "8", "--network", "small_cnn", "--device", "cpu")
TRIALS = {
    "round.py": (*SMALL, "--sources", "2", "--rounds", "1"),
    "growth.py": (*SMALL, "--clients", "2", "3", "4", "--repeat", "1", "--rounds", "10"),
    "rounding.py": ("--rounds", "0"),
    "cpu.py": ("--clients", "2", "--images", "16", "--rounds", "1", "--cases", "many"),
}


@pytest.mark.parametrize("name", TRIALS)
def test_a_benchmark_runs_and_writes_what_it_measured(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [name, *TRIALS[name], "--out", str(tmp_path)])
    monkeypatch.syspath_prepend(FOLDER)
    threads = torch.get_num_threads()
    try:
        runpy.run_path(str(FOLDER / name), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
    assert [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
