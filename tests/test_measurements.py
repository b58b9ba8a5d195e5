"""Studies that measure in this process: what is kept, what is gone on with, and the tables they write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from galafed.errors import ConfigError, DataError
from galafed.reproduction.measurement import FILE, Measurement, Record, Unit
from galafed.reproduction.timing import TimedRounds, disputed, drawn_votes, timed_run
from galafed.runs import archive
from galafed.studies import base
from galafed.studies.base import studies


class Squares(Measurement):
    """Measures squares; of one number it fails once."""

    name = "squares"
    title = "Squares"
    measured: list[int]
    fails_at: int | None = None

    def units(self, device: str) -> Sequence[Unit]:
        return [Unit(f"square of {n}", {"n": n, "device": device}) for n in (1, 2, 3)]

    def measure(self, unit: Unit, device: torch.device) -> Mapping[str, Any]:
        if unit.settings["n"] == Squares.fails_at:
            raise KeyboardInterrupt
        Squares.measured.append(unit.settings["n"])
        return {"square": unit.settings["n"] ** 2}

    def write(self, folder: Path, records: Sequence[Record], *, command: str) -> Sequence[Path]:
        (folder / "sum").write_text(str(sum(record["found"]["square"] for record in records)))
        return [folder / "sum"]


@pytest.fixture
def squares(monkeypatch: pytest.MonkeyPatch) -> None:
    Squares.measured, Squares.fails_at = [], None
    monkeypatch.setattr(base.studies, "get", lambda name: Squares)


def reproduce(name: str, tmp_path: Path, **settings: Any) -> list[str]:
    said: list[str] = []
    values = {"minutes": 0, "jobs": 1, "place": {"device": "cpu"}, "out": tmp_path / "out", "work": tmp_path / "work"}
    base.reproduce(name, say=said.append, **{**values, "settings": settings})
    return said


def test_an_interrupted_measurement_goes_on_with_what_is_missing(tmp_path: Path, squares: None) -> None:
    Squares.fails_at = 3
    with pytest.raises(KeyboardInterrupt):
        reproduce("squares", tmp_path)
    assert Squares(None).progress(tmp_path / "out") == (2, 3)
    Squares.fails_at = None
    assert "3 pieces, 2 measured, 1 to do" in reproduce("squares", tmp_path)[0]
    assert Squares.measured == [1, 2, 3]
    assert (tmp_path / "out" / "squares" / "sum").read_text() == "14"
    record = json.loads((tmp_path / "out" / "squares" / FILE).read_text().splitlines()[0])
    assert record.keys() == {"unit", "settings", "found", "device", "machine", "commit", "seconds"}


def test_a_damaged_file_of_measurements_is_named(tmp_path: Path, squares: None) -> None:
    (tmp_path / "out" / "squares").mkdir(parents=True)
    (tmp_path / "out" / "squares" / FILE).write_text("{}\n")
    with pytest.raises(DataError, match="line 1"):
        reproduce("squares", tmp_path)


def test_a_setting_that_a_study_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"runtime\.imagse"):
        reproduce("runtime", tmp_path, imagse=3)
    with pytest.raises(ConfigError, match=r"mini\.images"):
        reproduce("mini", tmp_path, images=3)


# Traffic


def traffic_summary(count: int, source: int, server: int, target: int) -> dict[str, Any]:
    counted = {"source": source, "server": server, "target": target}
    everything = {party: size + 1_000_000 for party, size in counted.items()}
    names = [f"noise{n:02}" for n in range(1, count + 1)]
    return {"device": "cpu", "machine": "m", "rounds": 3, "sources": names, "bytes": counted | {"all": everything}}


def test_counted_bytes_stand_beside_the_papers_and_a_difference_is_named(tmp_path: Path) -> None:
    study = studies.get("traffic")()
    assert isinstance(study, base.Study)
    cells = {(cell.row, cell.column): cell for cell in study.cells()}
    assert {(row, len(cell.run.sources)) for (row, _), cell in cells.items()} == {
        (row, count) for row in ("FACT", "GALA", "KD3A") for count in (5, 10)
    }
    assert {cell.run.network for cell in cells.values()} == {"digit_cnn"}
    gala, fact = cells["GALA", "5 sources"], cells["FACT", "10 sources"]
    done = [
        (gala, traffic_summary(5, 206_800_000, 1_239_600_000, 205_600_000)),
        (fact, traffic_summary(10, 309_000_000, 618_500_000, 205_600_000)),
    ]
    study.write(tmp_path, done, command="c")
    text = (tmp_path / "table.md").read_text()
    assert "206.80 (207) | 1239.60 (1240) | 205.60 (205)" in text
    assert "**GALA**: 3 of 3 figures within 1 %." in text
    assert "**FACT**: 2 of 3 figures within 1 %; different: source, 10 sources (+51 %)" in text
    records = json.loads((tmp_path / "table.json").read_text())
    assert records[0] == {
        "row": "GALA", "column": "5 sources", "party": "source", "megabytes": 206.8, "everything": 207.8,
        "paper": 207, "rounds": 3, "seeds": 1,
    }  # fmt: skip


def test_the_committed_communication_table_is_that_of_its_runs(tmp_path: Path) -> None:
    committed = Path(__file__).parent.parent / "results" / "traffic"
    study = studies.get("traffic")()
    assert isinstance(study, base.Study)
    measured = archive.read(committed)
    done = [(cell, measured[archive.recipe(cell.run)]) for cell in study.cells()]
    study.write(tmp_path, done, command="c")
    assert (tmp_path / "table.json").read_text() == (committed / "table.json").read_text()


# Runtime


def test_rounds_are_timed_phase_by_phase() -> None:
    run = TimedRounds(timed_run("gala", 2, images=32, size=16, network="small_cnn", device="cpu"))
    seconds = run.round(0)
    run.close()
    assert run.phases.keys() == {"hold", "centroids", "train", "tune", "align", "evaluate"}
    assert run.asked["train"] == 2
    assert run.asked["centroids"] == 3
    assert sum(run.phases[name][0] for name in run.phases if name != "hold") < seconds


def test_drawn_votes_are_disputed_more_often_by_more_sources() -> None:
    cpu = torch.device("cpu")
    shares = [disputed(*drawn_votes(2000, count, cpu), 0.9) for count in (3, 9, 17)]
    assert 0.1 < shares[0] < shares[1] < shares[2] < 1


def test_the_runtime_table_has_every_system_and_no_paper_figure_for_another_network(tmp_path: Path) -> None:
    tiny = {"sources": [2, 3], "images": 32, "network": "small_cnn", "size": 16, "rounds": 1}
    said = reproduce("runtime", tmp_path, **tiny)
    assert "6 pieces, 0 measured, 6 to do" in said[0]
    folder = tmp_path / "out" / "runtime"
    cells = json.loads((folder / "table.json").read_text())
    assert {(cell["row"], cell["sources"]) for cell in cells} == {
        (r, n) for r in ("FACT", "GALA", "KD3A") for n in (2, 3)
    }
    assert all(cell["seconds"] > 0 and cell["paper"] is None for cell in cells)
    assert all((cell["focus_seconds"] is None) == (cell["row"] != "KD3A") for cell in cells)
    text = (folder / "table.md").read_text()
    assert "slowest client alone" in text
    assert "--set images=32" in text
    with Image.open(folder / "runtime.png") as picture:
        assert picture.width > 400
    assert "6 measured, 0 to do" in reproduce("runtime", tmp_path, **tiny)[0]


def test_the_papers_seconds_stand_beside_those_of_its_network(tmp_path: Path) -> None:
    study: Any = studies.get("runtime")()
    records = [
        {
            "unit": unit.name,
            "settings": unit.settings,
            "found": {"seconds": 2.0, "timed": [2.0], "phases": {"train": 1.0}}
            | ({"focus_seconds": 0.5, "disputed": 0.4, "form": "subsets"} if unit.settings["row"] == "KD3A" else {}),
            "device": "cuda, x",
            "machine": "m",
            "commit": "abc",
        }
        for unit in study.units("cuda")
    ]
    study.write(tmp_path, records, command="c")
    text = (tmp_path / "table.md").read_text()
    assert "| GALA | 2.00 (17.27) | 2.00 (17.79) | 2.00 (22.21) | 2.00 (22.37) | 2.00 |" in text
    assert "| KD3A | 2.50 (50.73) |" in text  # the focus is added
    assert "**KD3A**: 1.0 times the seconds from 3 to 17 sources; the paper's grow 110.4 times from 3 to 9." in text
