"""Studies that measure in this process: what is kept, what is gone on with, and the tables they write."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from galafed import __version__
from galafed.benchmarks.base import Domain
from galafed.benchmarks.digit_18 import Digit18Settings
from galafed.benchmarks.noise import Noise, Settings
from galafed.benchmarks.toy import Toy
from galafed.digits.benchmark import DigitBenchmark
from galafed.digits.domains import EIGHTEEN
from galafed.errors import ConfigError, DataError, SaveError
from galafed.reproduction import measurement
from galafed.reproduction.editions import FIRST
from galafed.reproduction.measurement import FILE, Measurement, Record, Unit, archived
from galafed.reproduction.timing import TimedRounds, disputed, drawn_votes, timed_run
from galafed.runs import archive
from galafed.studies import base, similarity, traffic
from galafed.studies.base import studies
from galafed.trained.loading import load


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


def test_no_further_piece_is_measured_when_time_is_up(
    tmp_path: Path, squares: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement.time, "monotonic", lambda: 61.0 * len(Squares.measured))
    said: list[str] = []
    values: Any = {"jobs": 1, "place": {"device": "cpu"}, "out": tmp_path / "out", "work": tmp_path / "work"}
    base.reproduce("squares", say=said.append, minutes=1, **values)
    assert Squares.measured == [1]
    assert "2 pieces are still missing; the table shows what there is" in said
    assert (tmp_path / "out" / "squares" / "sum").read_text() == "1"


def test_a_table_of_nothing_is_told_not_written(tmp_path: Path, squares: None) -> None:
    said: list[str] = []
    place = {"device": "cpu"}
    written = base.reproduce(
        "squares", minutes=0, jobs=1, place=place, out=tmp_path, work=tmp_path, say=said.append, table=True
    )
    assert (list(written), Squares.measured) == ([], [])
    assert "nothing was measured yet" in said[-1]


def test_the_commit_tells_whether_the_package_was_changed_since(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *name, *arguments], check=True, capture_output=True)

    package, outside = tmp_path / "galafed", tmp_path / "notes"
    shutil.copytree(Path(base.__file__).parents[1], package, ignore=shutil.ignore_patterns("__pycache__", "*.parquet"))
    outside.write_text("one")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")

    def told() -> str:
        code = "from galafed.studies.base import commit; print(commit())"
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
        )
        return ran.stdout.strip()

    clean = told()
    outside.write_text("two")  # results written meanwhile are no other program
    assert told() == clean
    assert re.fullmatch("[0-9a-f]+", clean)
    (package / "algorithms" / "mine.py").touch()  # a new method is one new file
    assert told() == f"{clean} with changes"
    (package / "algorithms" / "mine.py").unlink()
    assert told() == clean
    with (package / "errors.py").open("a") as file:
        file.write("# changed\n")
    assert told() == f"{clean} with changes"
    git("rm", "-r", "--cached", "galafed")
    git("commit", "-m", "a project whose environment lies in its folder")
    assert told() == __version__


@pytest.mark.parametrize("line", [b"{}", b"\xff\x00"])
def test_a_damaged_file_of_measurements_is_named(tmp_path: Path, squares: None, line: bytes) -> None:
    (tmp_path / "out" / "squares").mkdir(parents=True)
    (tmp_path / "out" / "squares" / FILE).write_bytes(line + b"\n")
    with pytest.raises(DataError, match="line 1"):
        reproduce("squares", tmp_path)


def test_a_folder_that_takes_no_file_is_told_before_anything_is_measured(tmp_path: Path, squares: None) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(SaveError, match="out could not be written"):
        reproduce("squares", tmp_path)
    assert Squares.measured == []


def test_a_setting_that_a_study_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"key 'imagse' is not known\. Did you mean 'images'"):
        reproduce("runtime", tmp_path, imagse=3)
    with pytest.raises(ConfigError, match="--set images: mini has no settings; leave it out"):
        reproduce("mini", tmp_path, images=3)


@pytest.mark.parametrize("name", ["variance", "samples"])
def test_rows_of_what_is_no_table_of_runs_are_refused(name: str, tmp_path: Path) -> None:
    values: dict[str, Any] = {"minutes": 0, "jobs": 1, "place": {}, "out": tmp_path, "work": tmp_path}
    with pytest.raises(ConfigError, match=rf"{name} is no table of runs; leave them out, or that study"):
        base.reproduce(name, say=lambda text: None, rows=("GALA",), **values)


def test_an_engine_for_what_has_no_runs_is_refused(tmp_path: Path, squares: None) -> None:
    place = {"device": "cpu", "engine": "serial"}
    with pytest.raises(ConfigError, match="no runs to move"):
        base.reproduce("squares", minutes=0, jobs=1, place=place, out=tmp_path, work=tmp_path, say=lambda text: None)
    assert Squares.measured == []


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
    assert "](traffic.png)" in text
    assert (tmp_path / "traffic.png").read_bytes().startswith(b"\x89PNG")
    assert "**GALA**: 3 of 3 figures within 1 %." in text
    assert "**FACT**: 2 of 3 figures within 1 %; different: 10 sources: source (+51 %)" in text
    records = json.loads((tmp_path / "table.json").read_text())
    assert records[0] == {
        "row": "GALA", "column": "5 sources: source", "mean": 206.8, "std": 0.0, "seeds": 1, "rounds": 3,
        "selection": "median round", "paper": 207, "stand_in": False, "unit": "MB", "everything": 207.8,
    }  # fmt: skip


def test_the_picture_of_bytes_has_a_bar_for_each_count_and_a_line_for_each_figure_of_the_paper() -> None:
    records = [
        {"row": "GALA", "column": "5 sources: source", "mean": 206.8, "paper": 207},
        {"row": "GALA", "column": "10 sources: source", "mean": 1.0, "paper": 1},
        {"row": "KD3A", "column": "5 sources: server", "mean": 1135.9, "paper": None},
    ]
    axes = Figure().add_subplot()
    traffic._draw(axes, "5 sources", records)
    assert [(round(bar.get_x() + bar.get_width() / 2, 1), bar.get_height()) for bar in axes.patches] == [
        (-0.2, 206.8),
        (1.2, 1135.9),
    ]
    (line,) = axes.collections
    assert line.get_segments()[0][:, 1].tolist() == [207, 207]


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
    tiny = {"sources": [3, 5], "images": 32, "network": "small_cnn", "size": 16, "rounds": 1}
    said = reproduce("runtime", tmp_path, **tiny)
    assert "6 pieces, 0 measured, 6 to do" in said[0]
    folder = tmp_path / "out" / "runtime"
    cells = json.loads((folder / "table.json").read_text())
    assert {(cell["row"], cell["sources"]) for cell in cells} == {
        (r, n) for r in ("FACT", "GALA", "KD3A") for n in (3, 5)
    }
    assert all(cell["mean"] > 0 and cell["paper"] is None for cell in cells)
    assert all((cell["focus_seconds"] is None) == (cell["row"] != "KD3A") for cell in cells)
    text = (folder / "table.md").read_text()
    assert "slowest client alone" in text
    assert "(paper " not in text
    assert "the paper's own table" not in text
    assert "--set images=32" in text
    with Image.open(folder / "runtime.png") as picture:
        assert picture.width > 400
    assert "up to 1 rounds after warm-up" in text
    assert "6 measured, 0 to do" in reproduce("runtime", tmp_path, **tiny)[0]
    another: Any = base.study_of("runtime", tiny | {"rounds": 2})
    assert not {unit.recipe() for unit in another.units("cpu")} & set(archived(folder))  # other rounds, other numbers


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
    told = "1.0 times the seconds, the paper's 110.4 times. To 17 sources it is 1.0 times."
    assert f"**KD3A**: 2.50 s with 3 sources and 2.50 with 9 (paper 50.73 and 5600.48), {told}" in text
    assert "of all clients on one device, the paper's those of the slowest client alone" in text
    assert "1.0 with 9, 1.0 with 17 sources times FACT's seconds here; by the paper's own table 4.7 with 3" in text
    assert "5.5 with 9: confirmed." in text
    for record in records:
        record["found"]["seconds"] += record["settings"]["row"] == "GALA"
    study.write(tmp_path, records, command="c")
    text = (tmp_path / "table.md").read_text()
    assert "1.5 with 17 sources times FACT's seconds here; by the paper's own table 4.7 with 3" in text
    assert "5.5 with 9: not confirmed." in text


# Similarity and source count


def test_every_row_of_the_matrix_is_a_model_tested_on_all_domains(tmp_path: Path) -> None:
    reproduce("similarity", tmp_path, benchmark="toy", epochs=2)
    folder = tmp_path / "out" / "similarity"
    records = json.loads((folder / "table.json").read_text())
    assert len(records) == 25
    matrix = {(record["row"], record["column"]): record["mean"] for record in records}
    toy = Toy()
    for run in (tmp_path / "work").glob("*/done"):
        model = load(run.parent)
        for name in toy.domains:
            test = toy.load(name).test
            found = [toy.classes.index(row.label) for row in model.predict(test.images).rows]
            assert matrix[model.summary["target"], name] == pytest.approx(100 * (found == test.labels).mean(), abs=0.01)
    assert matrix["dark", "noisy"] != matrix["noisy", "dark"]
    with Image.open(folder / "similarity.png") as picture:
        assert picture.width > 400
    assert "5 measured, 0 to do" in reproduce("similarity", tmp_path, benchmark="toy", epochs=2)[0]


def digit_matrix(tmp_path: Path) -> dict[str, float]:
    """An archive of the study `similarity` whose domains are harder in order of name."""
    own = {name: 0.99 - 0.01 * place for place, name in enumerate(sorted(EIGHTEEN))}
    cells = studies.get("similarity")().cells()  # type: ignore[attr-defined]
    lines = [
        {
            "benchmark": "digit-18", "target": cell.row, "network": "digit_cnn", "rounds": 30, "device": "cuda",
            "machine": "m", "config": cell.run.to_dict(),
            "kept": {
                "tested_on": dict.fromkeys(EIGHTEEN, 0.2) | {cell.row: own[cell.row]}, "notes": {"syn": "regenerated"},
            },
        }
        for cell in cells
    ]  # fmt: skip
    archive.write(tmp_path / "out" / "similarity", lines)
    return own


def test_models_of_the_matrix_are_tested_on_images_of_the_edition_they_were_trained_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = set()

    def load(benchmark: DigitBenchmark, domain: str) -> Domain:
        opened.add(benchmark.settings)
        return Toy().load("dark")

    monkeypatch.setattr(DigitBenchmark, "load", load)
    study: Any = studies.get("similarity")()
    assert len(study._tests) == 18
    assert opened == {cell.run.benchmark_settings for cell in study.cells()} == {Digit18Settings(**FIRST)}


def test_of_a_matrix_in_part_nothing_is_told_that_is_not_there(tmp_path: Path) -> None:
    digit_matrix(tmp_path)
    folder = tmp_path / "out" / "similarity"
    archive.write(folder, [run for run in archive.read(folder).values() if run["target"] in ("mnist", "mnistm")])
    values: dict[str, Any] = {"minutes": 0, "jobs": 1, "place": {}, "out": tmp_path / "out", "work": tmp_path}
    base.reproduce("similarity", say=lambda text: None, table=True, **values)
    text = (folder / "table.md").read_text()
    assert "similarity.png" not in text
    assert "better than MNIST on 0 of 5." in text
    (five, *_) = similarity._verdicts({name: {"mnist": 90.0, "mnistm": 50.0} for name in ("mnist", "mnistm")})
    assert "SYNM" not in five


def test_the_matrix_stands_beside_what_the_paper_says_of_it(tmp_path: Path) -> None:
    digit_matrix(tmp_path)
    assert "18 measured, 0 to do" in reproduce("similarity", tmp_path)[0]
    text = (tmp_path / "out" / "similarity" / "table.md").read_text()
    assert "(95.6)" in text  # the oracle of MNISTM
    assert "mnistm 20.0, synm 20.0, svhnm 20.0, uspsm 20.0: 4 of 4." in text
    assert "mnist 20.0; usps 20.0 (20.0)" in text
    assert "better than MNIST on 0 of 5." in text
    assert "| syn (regenerated) |" in text
    records = json.loads((tmp_path / "out" / "similarity" / "table.json").read_text())
    assert {r["stand_in"] for r in records if r["column"] == "syn"} == {True}
    assert {r["paper"] for r in records if r["row"] == r["column"] == "mnistm"} == {95.6}


def test_domains_are_added_easy_first(tmp_path: Path) -> None:
    study: Any = studies.get("source-count")()
    assert study.progress(tmp_path / "out")[0] == 0
    with pytest.raises(ConfigError, match="gala reproduce similarity"):
        reproduce("source-count", tmp_path)
    own = digit_matrix(tmp_path)
    study.progress(tmp_path / "out")
    assert list(study.order) == sorted(study.order, key=lambda name: -own[name])
    sources = {cell.column: cell.run.sources for cell in study.cells() if cell.row == "GALA"}
    assert set(sources["svhn, 4"]) == {"mnist", "mnistm", "syn", "usps"}
    assert set(sources["svhn, 6"]) == {"mnist", "mnistm", "syn", "usps", "ardis", "ardis2"}
    assert len(sources["svhn, 17"]) == 17
    assert "svhn" not in sources["svhn, 17"]


def test_with_all_sources_the_runs_are_those_of_the_large_table() -> None:
    large = {archive.recipe(cell.run) for cell in studies.get("digit-18-first")().cells()}  # type: ignore[attr-defined]
    study: Any = studies.get("source-count")()
    assert all(archive.recipe(cell.run) in large for cell in study.cells() if cell.column.endswith(", 17"))


def test_with_four_sources_the_runs_of_kd3a_are_those_of_digit_five() -> None:
    first: Any = studies.get("digit-five-first")()
    small = {archive.recipe(cell.run) for cell in first.cells()}
    kd3a = [cell for cell in studies.get("source-count")().cells() if cell.row == "KD3A"]  # type: ignore[attr-defined]
    counts = {cell.column: len(cell.run.sources) for cell in kd3a}
    assert set(counts.values()) == {4, 6, 9}
    assert all(column.endswith(f", {count}") for column, count in counts.items())
    assert {cell.run.rounds for cell in kd3a} == {40}
    assert {len(cell.run.sources) for cell in kd3a if archive.recipe(cell.run) in small} == {4}
    assert all(archive.recipe(cell.run) in small for cell in kd3a if len(cell.run.sources) == 4)


def test_source_count_draws_curves_and_tells_the_order(tmp_path: Path) -> None:
    study: Any = studies.get("source-count")()
    accuracy = {"last": 0.5, "selected": 0.5, "best_oracle": 0.6}
    common = {"device": "cuda", "machine": "m", "rounds": 60, "accuracy": accuracy, "kept": {"accuracy": [0.4, 0.5]}}
    done = [(cell, {**common, "target": cell.run.target}) for cell in study.cells()[:-1]]
    written = study.write(tmp_path, done, command="c")
    assert [path.name for path in written] == ["table.json", "table.md", "source-count.png"]
    assert "Added in this order: ardis, ardis2, tmnist" in (tmp_path / "table.md").read_text()
    with pytest.raises(ConfigError, match="from 4 to 17"):
        study.Settings(counts=(3,))
    with pytest.raises(ConfigError, match="once"):
        study.Settings(order=("ardis",))


def test_images_of_noise_are_as_many_and_as_random_as_asked_for() -> None:
    noise = Noise(Settings(domains=3, images=400, tested=7, size=32))
    first, second = noise.load("noise00"), noise.load("noise01")
    assert (first.train.images.shape, len(first.test)) == ((400, 32, 32, 3), 7)
    assert len({image.tobytes() for image in first.train.images}) == 400
    assert not numpy.array_equal(first.train.images, second.train.images)
    assert abs(first.train.images.mean() - 127.5) < 1
    assert numpy.array_equal(noise.load("noise00").train.images, first.train.images)
    with pytest.raises(ConfigError, match="noise03"):
        noise.load("noise03")


def test_what_the_paper_says_of_bytes_is_held_against_the_numbers() -> None:
    def claims(gala: float, kd3a: float) -> list[str]:
        found = {"GALA": gala, "KD3A": kd3a, "FACT": 100.0}
        records = [
            {"row": row, "column": f"5 sources: {party}", "mean": mean}
            for row, mean in found.items()
            for party in ("source", "server")
        ]
        return list(traffic._claims(records))

    comparable, least, centroids = claims(100.5, 101.0)
    assert comparable.endswith("5 sources: server -0 %: confirmed.")
    assert least.endswith("it moves least in 2 of 2 columns.")
    assert centroids.endswith("0.50 % of its bytes: confirmed.")
    comparable, least, centroids = claims(200.0, 50.0)
    assert comparable.endswith("server +300 %: not confirmed.")
    assert "0 of 2 columns, not in 5 sources: source (KD3A), 5 sources: server (KD3A)." in least
    assert centroids.endswith("50.00 % of its bytes: not confirmed.")
