"""Looking at a user's images: what an inspection and a verification find, say and write."""

from __future__ import annotations

import io
import shutil
import struct
import tomllib
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
from PIL import Image
from rich.console import Console

from galafed.benchmarks.base import Domain, Split
from galafed.benchmarks.folder import Folder
from galafed.benchmarks.mini import Mini
from galafed.benchmarks.toy import Toy
from galafed.config import resolve
from galafed.errors import ConfigError, DataError
from galafed.inspection.configuration import check_writable, configuration
from galafed.inspection.inspecting import inspect_images
from galafed.inspection.presence import presence
from galafed.inspection.report import describe
from galafed.inspection.verifying import checksum, verify, verify_domain
from galafed.report.contact_sheet import cell_side, contact_sheet, pick


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path / "cache"))


def noise(seed: int, size: tuple[int, int] = (20, 20)) -> Image.Image:
    rng = numpy.random.default_rng(seed)
    return Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=numpy.uint8))


def fill(root: Path, counts: dict[str, dict[str, int]], seed: int = 0) -> Path:
    """Different images, as many as named for each class of each domain."""
    for domain, classes in counts.items():
        for label, count in classes.items():
            (root / domain / label).mkdir(parents=True)
            for number in range(count):
                seed += 1
                noise(seed).save(root / domain / label / f"{number}.png")
    return root


def look(path: Path) -> dict[str, Any]:
    return inspect_images(path, lambda what, done, total: None)


def text(record: dict[str, Any]) -> str:
    """What a person reads."""
    written = io.StringIO()
    console = Console(width=200, file=written)
    for piece in describe(record):
        console.print(piece, soft_wrap=True)
    return written.getvalue()


EVEN = {"photo": {"cat": 8, "dog": 8}, "sketch": {"cat": 8, "dog": 8}}


def test_a_plain_folder_has_nothing_to_complain_of(tmp_path: Path) -> None:
    record = look(fill(tmp_path / "data", EVEN))
    assert record["usable"]
    assert (record["problems"], record["warnings"], record["unreadable"]) == ([], [], [])
    assert record["domains"]["photo"] == {
        "images": 16,
        "train": 12,
        "test": 4,
        "split": "drawn",
        "per_class": {"cat": 8, "dog": 8},
        "missing": [],
        "sizes": {
            "different": 1,
            "most_common": [20, 20],
            "shorter_side": {"least": 20, "median": 20, "most": 20},
            "longer_to_shorter": 1.0,
        },
        "modes": {"RGB": 16},
    }


def test_counts_are_those_of_the_benchmark(tmp_path: Path) -> None:
    root = fill(tmp_path / "data", {"a": {"x": 7, "y": 3, "z": 1}, "b": {"x": 12, "y": 2}})
    for number in range(5):
        shutil.copy(root / "b" / "x" / "0.png", root / "b" / "x" / f"copy{number}.png")
    record = look(root)
    run = resolve(tomllib.loads(configuration(record)))
    benchmark = Folder(run.benchmark_settings)
    for name, domain in record["domains"].items():
        loaded = benchmark.load(name)
        assert (domain["train"], domain["test"]) == (len(loaded.train), len(loaded.test))


def test_missing_small_and_uneven_classes_are_told(tmp_path: Path) -> None:
    record = look(fill(tmp_path / "data", {"a": {"x": 30, "y": 2, "only": 6}, "b": {"x": 6, "y": 6}}))
    assert record["domains"]["b"]["missing"] == ["only"]
    for words in (
        "b lacks the class only",
        "class only is in a only",
        "fewer than 5 images of y (2)",
        "a is imbalanced: 30 images of x, 2 of y",
    ):
        assert any(words in warning for warning in record["warnings"]), words
    assert record["recommended"]["target"] == "a"
    assert record["usable"]


def test_copies_are_found_by_their_pixels_whatever_the_format(tmp_path: Path) -> None:
    root = fill(tmp_path / "data", EVEN)
    with Image.open(root / "photo" / "cat" / "1.png") as image:
        image.save(root / "sketch" / "dog" / "other.bmp")
    with Image.open(root / "photo" / "dog" / "2.png") as image:
        image.convert("RGBA").save(root / "photo" / "dog" / "again.png")
    duplicates = look(root)["duplicates"]
    assert duplicates["across_domains"] == [["photo/cat/1.png", "sketch/dog/other.bmp"]]
    assert duplicates["other_class"] == duplicates["across_domains"]
    assert duplicates["repeated"] == [["photo/dog/2.png", "photo/dog/again.png"]]
    assert duplicates["train_and_test"] == []
    assert "sketch/dog/other.bmp" in text(look(root))


def test_copies_in_both_parts_of_a_split_are_found(tmp_path: Path) -> None:
    fill(tmp_path / "data" / "photo", {"train": {"cat": 6, "dog": 6}, "test": {"cat": 3, "dog": 3}})
    root = fill(tmp_path / "data", {"sketch": {"cat": 6, "dog": 6}}, seed=500)
    shutil.copy(root / "photo" / "train" / "cat" / "1.png", root / "photo" / "test" / "cat" / "leak.png")
    record = look(root)
    found = record["duplicates"]["train_and_test"]
    assert ["photo/test/cat/leak.png", "photo/train/cat/1.png"] in [sorted(group) for group in found]
    assert record["domains"]["photo"]["split"] == "given"
    assert any("too high" in warning for warning in record["warnings"])


def header_of(width: int, height: int) -> bytes:
    """A small PNG file that claims a size."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"0")) + chunk(b"IEND", b"")


def test_unreadable_files_are_named_and_left_out(tmp_path: Path) -> None:
    root = fill(tmp_path / "data", EVEN)
    whole = (root / "photo" / "cat" / "1.png").read_bytes()
    (root / "photo" / "cat" / "cut.png").write_bytes(whole[: len(whole) // 2])
    (root / "photo" / "cat" / "text.png").write_text("hello")
    (root / "photo" / "cat" / "empty.jpg").write_bytes(b"")
    (root / "photo" / "cat" / "huge.png").write_bytes(header_of(20000, 20000))
    record = look(root)
    assert [entry["file"] for entry in record["unreadable"]] == [
        f"photo/cat/{name}" for name in ("cut.png", "empty.jpg", "huge.png", "text.png")
    ]
    assert record["usable"]
    assert record["domains"]["photo"]["images"] == 16
    settings = tomllib.loads(configuration(record))["folder"]
    assert settings["unreadable"] == "skip"
    assert "huge.png: is too large" in text(record)


def test_a_domain_of_unreadable_files_cannot_be_used(tmp_path: Path) -> None:
    root = fill(tmp_path / "data", EVEN)
    for path in (root / "photo").rglob("*.png"):
        path.write_text("hello")
    record = look(root)
    assert not record["usable"]
    assert "not one of its files can be read" in record["problems"][0]
    assert "cannot be used" in text(record)


def test_every_problem_of_a_folder_is_told_at_once(tmp_path: Path) -> None:
    root = fill(tmp_path / "data", {**EVEN, "Photo": {"cat": 3, "dog": 3}})
    (root / "sketch" / "bird").mkdir()
    record = look(root)
    assert not record["usable"]
    assert len(record["problems"]) == 2
    assert "sketch/bird" in record["problems"][0]
    assert "differ in case" in record["problems"][1]


def test_files_and_folders_out_of_place_are_told(tmp_path: Path) -> None:
    root = fill(tmp_path / "data", EVEN)
    (root / "photo" / "cat" / "notes.txt").write_text("x")
    (root / "photo" / "cat" / ".hidden.png").write_text("x")
    (root / "photo" / "cat" / "more").mkdir()
    warnings = " ".join(look(root)["warnings"])
    assert "photo/cat/notes.txt" in warnings
    assert "photo/cat/more" in warnings
    assert "hidden" not in warnings


def test_odd_shapes_and_large_images_are_told(tmp_path: Path) -> None:
    root = fill(tmp_path / "data", EVEN)
    noise(900, (50, 10)).save(root / "photo" / "cat" / "long.png")
    Image.new("RGB", (1, 1)).save(root / "photo" / "cat" / "dot.png")
    for number, path in enumerate(sorted((root / "sketch").rglob("*.png"))):
        noise(1000 + number, (150, 150)).save(path)
    record = look(root)
    warnings, advice = " ".join(record["warnings"]), " ".join(record["advice"])
    assert "5 times as long as wide" in warnings
    assert "as few as 1 pixels" in warnings
    assert "pretrained" in advice
    assert record["recommended"]["folder.image_size"] == 32


def test_the_configuration_is_one_that_resolves(tmp_path: Path) -> None:
    root = fill(tmp_path / 'my "images" é', {"b [red]": {"x": 4, "y": 4}, 'a # b"': {"x": 4, "y": 4}})
    record = look(root)
    run = resolve(tomllib.loads(configuration(record)))
    assert (run.benchmark, run.target, run.sources) == ("folder", 'a # b"', ("b [red]",))
    assert run.benchmark_settings.path == str(root)
    assert run.training.batch_size == 8
    assert "b [red]" in text(record)


def test_a_file_of_the_user_is_not_replaced(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('benchmark = "mini"\n')
    with pytest.raises(ConfigError, match=r"mine\.toml.*name another"):
        check_writable(mine)
    with pytest.raises(ConfigError, match=r"must end in \.toml"):
        check_writable(tmp_path / "mine.txt")
    with pytest.raises(ConfigError, match="does not exist"):
        check_writable(tmp_path / "nowhere" / "new.toml")
    mine.write_text(configuration(look(fill(tmp_path / "data", EVEN))))
    check_writable(mine)


def test_verification_of_a_sound_benchmark() -> None:
    steps: list[tuple[str, int, int]] = []
    record = verify(Toy(), lambda *step: steps.append(step))
    assert record["sound"]
    assert record["domains"]["dark"]["train"]["images"] == 48
    assert record["domains"]["dark"]["test"]["histogram"] == [16, 16, 16]
    assert record["domains"]["dark"]["train"]["checksum"] == checksum(Toy().load("dark").train)
    assert [step[0] for step in steps[:-1]] == list(Toy.domains)
    assert steps[-1][1:] == (5, 5)


class Altered(Toy):
    """The toy benchmark with one domain changed by a function."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = change

    def load(self, domain: str) -> Domain:
        found = super().load(domain)
        return self.change(found) if domain == "dark" else found  # type: ignore[no-any-return]


def with_test(domain: Domain, images: Any, labels: Any) -> Domain:
    return replace(domain, test=Split(images=images, labels=labels))


def fail(domain: Domain) -> Domain:
    raise DataError("dark.bin: is damaged; fetch it again")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: with_test(d, d.train.images[:5], d.train.labels[:5]), "5 test images are pixel by pixel"),
        (lambda d: with_test(d, d.test.images, d.test.labels + 1), "labels go from 1 to 3"),
        (lambda d: with_test(d, d.test.images[:, :4], d.test.labels), "images are uint8 [48, 4, 8, 3]"),
        (lambda d: with_test(d, d.test.images[:0], d.test.labels[:0]), "there are no images"),
        (fail, "dark.bin: is damaged"),
    ],
)
def test_verification_finds_what_is_wrong(change: Any, words: str) -> None:
    record = verify(Altered(change), lambda *step: None)
    assert not record["sound"]
    assert any(words in fault for fault in record["domains"]["dark"]["wrong"]), record["domains"]["dark"]["wrong"]
    assert all(not domain["wrong"] for name, domain in record["domains"].items() if name != "dark")


def test_verification_looks_at_base_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toy, "bases", lambda self, domain: (numpy.arange(48), numpy.arange(46, 94)), raising=False)
    assert verify_domain(Toy(), "dark")["wrong"] == ["2 test images are made from base images of training images"]


def test_testing_on_all_images_by_protocol_is_no_leak() -> None:
    record = verify(Altered(lambda d: replace(d, test=d.train)), lambda *step: None)
    assert record["sound"]
    assert record["domains"]["dark"]["tested_on_training_images"]


def test_presence_tells_ready_from_not_prepared(tmp_path: Path) -> None:
    assert {d["state"] for d in presence("toy")["domains"].values()} == {"ready"}
    assert presence("folder")["domains"] == {}
    assert {d["state"] for d in presence("mini")["domains"].values()} == {"not prepared"}
    Mini().store().save({"x": numpy.zeros(1)}, {})
    assert {d["state"] for d in presence("mini")["domains"].values()} == {"ready"}


def test_a_contact_sheet_shows_samples_where_they_belong(tmp_path: Path) -> None:
    red = numpy.full((16, 16, 3), (100, 0, 0), numpy.uint8)
    split = Split(images=numpy.stack([red, red * 2]), labels=numpy.array([0, 2]))
    picked = pick(split, ("a", "b", "c"), 2)
    assert [len(cell) for cell in picked.values()] == [1, 0, 1]
    path = tmp_path / "sheet.png"
    path.write_bytes(contact_sheet("title", {"one é (stand-in)": picked}, ("a", "b", "c"), 2))
    with Image.open(path) as sheet:
        pixels = numpy.asarray(sheet)
    side = cell_side(red)
    assert side == 48
    assert (pixels == (100, 0, 0)).all(axis=2).sum() == side * side
    assert (pixels == (200, 0, 0)).all(axis=2).sum() == side * side
    empty = (pixels == 0xEE).all(axis=2).sum()
    assert 4 * side * side <= empty < 4 * side * side + 50  # edges of letters may have that level too
    first, second = ((pixels == (level, 0, 0)).all(axis=2).nonzero()[1].min() for level in (100, 200))
    assert second > first + 2 * side
