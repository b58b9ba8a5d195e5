"""`gala data`, as a process: a user's folder from inspection to a run, and the verbs for benchmarks."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest
from PIL import Image

from galafed.cli import main

DOCS = Path(__file__).parents[1] / "docs" / "data.md"
CLASSES = ("cat", "dög 2", "house")


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def gala(*arguments: str | Path, cwd: Path) -> Answer:
    """The command as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "galafed", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"COLUMNS": "160", "GALAFED_CACHE": str(cwd / "cache")},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("GALAFED_DATA", raising=False)
    return tmp_path


def within(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Answer:
    """The command inside this process, which is quicker."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return Answer(int(ended.value.code or 0), said.out, said.err)


def size_of(path: Path) -> tuple[int, int]:
    """Width and height of a picture that was drawn."""
    with Image.open(path) as image:
        assert image.format == "PNG"
        return image.size


def picture(place: int, level: int, size: int, rng: numpy.random.Generator) -> Image.Image:
    """A pattern for each class over noise."""
    pixels = rng.normal(level, 15, (size, size, 3))
    pixels[[numpy.s_[::4], numpy.s_[:, ::4], numpy.s_[: size // 2, : size // 2]][place]] += 90
    return Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8))


def fill(root: Path, count: int = 8) -> Path:
    """Three domains of different sizes and formats, with blanks and accents in every name."""
    rng = numpy.random.default_rng(0)
    for domain, level, size, ending in (
        ("photo", 60, 24, "png"),
        ("skétch é", 120, 32, "jpg"),
        ("scans", 90, 20, "bmp"),
    ):
        for place, label in enumerate(CLASSES):
            folder = root / domain / label
            folder.mkdir(parents=True)
            for number in range(count):
                picture(place, level, size, rng).save(folder / f"no. {number}.{ending}")
    return root


def make_odd(root: Path) -> Path:
    """Everything that a folder from real life may hold."""
    rng = numpy.random.default_rng(1)
    fill(root)
    shutil.rmtree(root / "scans" / "house")
    cats = root / "photo" / "cat"
    picture(0, 60, 24, rng).convert("RGBA").save(cats / "rgba.png")
    picture(0, 60, 24, rng).convert("P").save(cats / "palette.png")
    picture(0, 60, 24, rng).convert("CMYK").save(cats / "cmyk.jpg")
    Image.fromarray(numpy.arange(576, dtype=numpy.uint16).reshape(24, 24) * 100).save(cats / "deep.png")
    Image.new("RGB", (1, 1), "red").save(cats / "dot.png")
    (cats / "text.png").write_text("hello")
    whole = (cats / "no. 0.png").read_bytes()
    (cats / "cut.png").write_bytes(whole[: len(whole) // 2])
    with Image.open(cats / "no. 1.png") as image:
        image.save(root / "scans" / "cat" / "copy.bmp")
    return root


def test_an_odd_folder_is_inspected_and_run_through_the_written_file(here: Path) -> None:
    make_odd(here / "my [odd] images")
    (here / "my [odd] images" / "scans" / "bird").mkdir()
    refused = gala("data", "inspect", "my [odd] images", "--write", "odd.toml", cwd=here)
    assert refused.code == 3
    assert "my [odd] images" in refused.err
    assert "scans/bird" in refused.err
    assert not (here / "odd.toml").exists()

    (here / "my [odd] images" / "scans" / "bird").rmdir()
    looked = gala("data", "inspect", "my [odd] images", "--write", "odd.toml", cwd=here)
    assert looked.code == 0
    for word in (
        "3 domains, 3 classes (cat, dög 2, house)",
        "RGB 25, CMYK 1, I;16 1, P 1, RGBA 1",
        "scans lacks the class house",
        "photo/cat/cut.png, photo/cat/text.png",
        "photo/cat/no. 1.png = scans/cat/copy.bmp",
        "gala run --config odd.toml",
    ):
        assert word in looked.out, (word, looked.out)

    ran = gala("run", "--config", "odd.toml", "--rounds", "2", "--out", "run", "--set", "threads=1", cwd=here)
    assert ran.code == 0, ran.text
    summary = json.loads((here / "run" / "summary.json").read_text())
    assert (summary["target"], summary["rounds"]) == ("photo", 2)
    assert set(summary["relevance"]) == {"scans", "skétch é"}


def test_the_three_commands_of_the_documentation(here: Path) -> None:
    fill(here / "photos")
    commands = re.search(r"```console\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert commands is not None
    lines = commands[1].strip().splitlines()
    assert len(lines) == 3
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "gala"
        answer = gala(*arguments, cwd=here)
        assert answer.code == 0, answer.text
    assert size_of(here / "photos-preview.png") > (400, 200)
    assert len(list((here / "runs").glob("*/done"))) == 1


def test_inspect_as_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(here / "photos", count=3)
    answer = within(capsys, "data", "inspect", "photos", "--json", "--write", "photos.toml")
    record = json.loads(answer.out)
    assert answer.code == 0
    assert record["usable"]
    assert record["written"] == "photos.toml"
    assert record["domains"]["scans"]["per_class"] == dict.fromkeys(CLASSES, 3)
    shutil.rmtree(here / "photos" / "scans")
    shutil.rmtree(here / "photos" / "photo")
    answer = within(capsys, "data", "inspect", "photos", "--json")
    assert answer.code == 3
    assert not json.loads(answer.out)["usable"]
    assert "one domain only" in answer.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("inspect", "nowhere"), 3, ("nowhere", "no such folder")),
        (("inspect", "photos", "--write", "x.txt"), 2, ("--write", ".toml")),
        (("verify", "nothing"), 2, ("'nothing'", "mini", "folder")),
        (("verify", "folder"), 2, ("folder.path",)),
        (("preview", "toy", "--out", "x.jpg"), 2, ("--out", ".png")),
        (("preview", "toy", "--split", "both"), 2, ("--split", "train, test")),
        (("preview", "toy", "--out", "no/where.png"), 2, ("no", "does not exist")),
        (("similarity", "toy", "--epochs", "0"), 2, ("epochs",)),
        (("similarity", "toy", "--device", "tpu"), 2, ("device",)),
        (("prepare", "toy", "--data", "nowhere"), 2, ("--data nowhere",)),
        (("prepare", "missing.toml"), 2, ("missing.toml",)),
    ],
)
def test_mistakes_are_answered_with_a_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    answer = within(capsys, "data", *arguments)
    assert answer.code == code
    for word in words:
        assert word in answer.err


def test_list_names_every_benchmark(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = {record["name"]: record for record in json.loads(within(capsys, "data", "list", "--json").out)}
    assert {"mini", "toy", "folder"} <= set(records)
    assert records["toy"]["domains"]["dark"] == {"state": "ready", "note": "", "where": ""}
    told = within(capsys, "data", "list")
    assert told.code == 0
    for name in records:
        assert name in told.out
    for record in records.values():
        for domain in record["domains"].values():
            assert (domain["state"] == "missing") == bool(domain["where"])


def test_prepare_is_idempotent(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(here / "photos", count=3)
    assert within(capsys, "data", "prepare", "photos").code == 0
    stored = {path: path.stat().st_mtime_ns for path in (here / "cache").rglob("*") if path.is_file()}
    assert len(stored) == 9
    again = within(capsys, "data", "prepare", "photos")
    assert "3 domains" in again.out
    assert stored == {path: path.stat().st_mtime_ns for path in (here / "cache").rglob("*") if path.is_file()}


def test_verify_a_sound_and_a_leaking_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(here / "photos", count=4)
    for part in ("train", "test"):
        shutil.copytree(here / "photos" / "photo", here / "photos" / "split" / part)
    shutil.rmtree(here / "photos" / "photo")
    answer = within(capsys, "data", "verify", "photos")
    assert answer.code == 3
    assert "split: 12 test images are pixel by pixel among the training images" in answer.err
    shutil.rmtree(here / "photos" / "split")
    record = json.loads(within(capsys, "data", "verify", "photos", "--json").out)
    assert record["sound"]
    assert record["domains"]["scans"]["train"]["histogram"] == [3, 3, 3]
    told = within(capsys, "data", "verify", "toy")
    assert told.code == 0
    assert told.out.count("sound") == 5


def test_preview_shows_notes_and_test_images(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from galafed.benchmarks.base import Domain
    from galafed.benchmarks.toy import Toy
    from galafed.report import contact_sheet

    load = Toy.load
    rows: list[str] = []
    draw = contact_sheet.contact_sheet

    def noted(self: Toy, domain: str) -> Domain:
        found = load(self, domain)
        return Domain(name=domain, train=found.train, test=found.test, note="stand-in" if domain == "dark" else "")

    def watched(title: str, samples: Any, *rest: Any) -> bytes:
        rows.extend(samples)
        return draw(title, samples, *rest)

    monkeypatch.setattr(Toy, "load", noted)
    monkeypatch.setattr(contact_sheet, "contact_sheet", watched)
    assert within(capsys, "data", "preview", "toy", "--split", "test", "--samples", "2").code == 0
    assert rows == ["bright", "dark (stand-in)", "faint", "inverted", "noisy"]
    assert size_of(here / "toy-preview.png") > (400, 200)


def test_similarity_writes_a_matrix_of_accuracies(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = within(capsys, "data", "similarity", "toy", "--epochs", "6", "--device", "cpu", "--out", "out.png")
    assert answer.code == 0, answer.text
    record = json.loads((here / "out.json").read_text())
    matrix = numpy.array(record["accuracy"])
    assert record["domains"] == ["bright", "dark", "faint", "inverted", "noisy"]
    assert matrix.shape == (5, 5)
    assert numpy.diag(matrix).mean() > 0.8
    assert matrix[0, 2] < matrix[2, 0] - 0.3  # rows are trained on: bright knows nothing of faint, faint all of bright
    assert size_of(here / "out.png") > (400, 400)
    within(capsys, "data", "similarity", "toy", "--epochs", "6", "--device", "cpu", "--out", "again.png")
    assert json.loads((here / "again.json").read_text()) == record


@pytest.mark.parametrize("verb", ["run", "data"])
def test_the_data_flag_wins_over_the_environment(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("GALAFED_DATA", "/nowhere")
    (here / "mine").mkdir()
    arguments = ("run", "toy", "--target", "unknown") if verb == "run" else ("data", "prepare", "toy")
    within(capsys, *arguments, "--data", "mine")
    assert os.environ["GALAFED_DATA"] == str(here / "mine")


def test_help_names_the_verbs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "gala data --help" in within(capsys, "--help").out
    told = within(capsys, "data", "--help")
    for verb in ("list", "prepare", "verify", "preview", "similarity", "inspect"):
        assert verb in told.out
