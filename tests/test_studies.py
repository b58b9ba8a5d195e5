"""Studies: which runs they ask for, and the table that is made of summaries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from galafed.report.accuracy_table import write_table
from galafed.studies.base import studies


def summary(last: float, rounds: int = 30) -> dict[str, Any]:
    accuracy = {"last": last, "selected": last, "best_oracle": 1.0}
    return {"run": "somewhere", "device": "cpu", "machine": "m", "rounds": rounds, "accuracy": accuracy}


def test_table_has_means_deviations_and_names_who_fell_behind(tmp_path: Path) -> None:
    done = [
        ("plain", "a", summary(0.5)),
        ("plain", "a", summary(0.7)),
        ("plain", "b", summary(0.9)),
        ("method", "a", summary(0.8, rounds=20)),
        ("method", "b", summary(0.85)),
    ]
    written = write_table(
        tmp_path / "t",
        done,
        title="A title",
        about="About.",
        made={"command": "gala reproduce t", "commit": "abc"},
        lower_bound={"method": "plain", "absent": "plain"},
    )
    text = (tmp_path / "t" / "table.md").read_text()
    assert [path.name for path in written] == ["table.json", "table.md", "runs.jsonl"]
    assert "| plain | 60.0 ± 10.0 | 90.0 | **75.0** |" in text
    assert "- method, against plain: b (-5.0)" in text
    assert "20 or 30 rounds, 1 or 2 seeds a cell;" in text
    assert "gala reproduce t" in text
    records = json.loads((tmp_path / "t" / "table.json").read_text())
    assert {k: records[9][k] for k in ("row", "column", "mean")} == {"row": "method", "column": "b", "mean": 85.0}
    assert len((tmp_path / "t" / "runs.jsonl").read_text().splitlines()) == 5
    assert "somewhere" not in (tmp_path / "t" / "runs.jsonl").read_text()


@pytest.mark.parametrize("name", studies.names())
def test_every_run_of_a_study_has_a_folder_of_its_own(name: str) -> None:
    cells = studies.get(name)().cells()
    assert len({cell.run.run_name for cell in cells}) == len(cells)
    assert {cell.run.threads for cell in cells} == {1}


def test_clean_runs_of_the_poison_study_are_those_of_the_table() -> None:
    table = {cell.run.run_name for cell in studies.get("mini")().cells()}
    clean = [cell for cell in studies.get("poison")().cells() if cell.column == "clean"]
    assert clean
    assert all(cell.run.run_name in table for cell in clean)
