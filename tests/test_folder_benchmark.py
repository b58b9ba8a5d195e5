"""The benchmark `folder`: a user's own images, from folders or a CSV."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy
import pytest
from PIL import Image

from galafed.benchmarks import folder as module
from galafed.benchmarks.folder import Folder, FolderSettings
from galafed.benchmarks.store import ArrayStore
from galafed.config import resolve
from galafed.errors import ConfigError, DataError, SaveError

CLASSES = ("circle", "square", "2 stars")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path / "cache"))


def picture(place: int, number: int, size: int = 20) -> Image.Image:
    """One colour whose red tells the class, with a few bits of the number in blue, so that no two are equal."""
    return Image.new("RGB", (size, size), (40 + 60 * place, 100, number))


def fill(root: Path, domains: tuple[str, ...] = ("photo", "sketch"), count: int = 8, part: str = "") -> Path:
    """`count` images of every class in every domain."""
    for across, domain in enumerate(domains):
        for place, label in enumerate(CLASSES):
            folder = root / domain / part / label
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                offset = 128 if part == "test" else 0
                picture(place, offset + 20 * across + number).save(folder / f"{number} {label}.png")
    return root


def opened(path: Path, **settings: Any) -> Folder:
    return Folder(FolderSettings(path=str(path), **settings))


def red(images: Any) -> list[int]:
    """The place of the class that an image's red tells."""
    return [round((int(image[4, 4, 0]) - 40) / 60) for image in images]


def names_of_tests(benchmark: Folder, domain: str) -> set[tuple[int, int]]:
    """What tells a test image apart: its class and its blue."""
    test = benchmark.load(domain).test
    return {(int(label), int(image[4, 4, 2])) for image, label in zip(test.images, test.labels, strict=True)}


def test_domains_and_classes_come_from_the_folders(tmp_path: Path) -> None:
    benchmark = opened(fill(tmp_path / "my images", ("zebra", "apple 2", "apple 10")))
    assert benchmark.domains == ("apple 2", "apple 10", "zebra")
    assert benchmark.classes == ("2 stars", "circle", "square")
    assert benchmark.default_target == "apple 2"
    assert (benchmark.image_size, benchmark.network) == (32, "small_cnn")


def test_images_have_the_labels_of_their_folders(tmp_path: Path) -> None:
    benchmark = opened(fill(tmp_path / "data"), classes=CLASSES, image_size=24)
    for name in benchmark.domains:
        domain = benchmark.load(name)
        for split, count in ((domain.train, 18), (domain.test, 6)):
            assert split.images.shape == (count, 24, 24, 3)
            assert split.images.dtype == numpy.uint8
            assert split.labels.tolist() == red(split.images)
            assert set(split.labels.tolist()) == {0, 1, 2}


@pytest.mark.parametrize(("count", "tests"), [(1, 0), (2, 1), (3, 1), (8, 2), (11, 3)])
def test_a_drawn_split_takes_its_share_of_each_class(tmp_path: Path, count: int, tests: int) -> None:
    root = fill(tmp_path / "data", count=8)
    shutil.rmtree(root / "photo" / "circle")
    (root / "photo" / "circle").mkdir()
    for number in range(count):
        picture(0, 200 + number).save(root / "photo" / "circle" / f"{number}.png")
    domain = opened(root, classes=CLASSES).load("photo")
    assert Counter(domain.test.labels.tolist())[0] == tests
    assert Counter(domain.train.labels.tolist())[0] == count - tests


def test_the_drawn_split_stays_when_the_folder_moves_and_nearly_when_it_grows(tmp_path: Path) -> None:
    before = names_of_tests(opened(fill(tmp_path / "data", count=12)), "photo")
    shutil.move(tmp_path / "data", tmp_path / "moved")
    assert names_of_tests(opened(tmp_path / "moved"), "photo") == before
    picture(0, 99).save(tmp_path / "moved" / "photo" / "circle" / "new.png")
    after = names_of_tests(opened(tmp_path / "moved"), "photo")
    assert len(before - after) <= 1
    assert names_of_tests(opened(tmp_path / "moved", split_seed=1), "photo") != after


def test_a_split_of_the_user_is_kept(tmp_path: Path) -> None:
    fill(tmp_path / "data", part="train", count=5)
    benchmark = opened(fill(tmp_path / "data", part="test", count=3), classes=CLASSES)
    domain = benchmark.load("sketch")
    assert (len(domain.train), len(domain.test)) == (15, 9)
    assert (domain.test.images[:, 4, 4, 2] >= 128).all()
    assert (domain.train.images[:, 4, 4, 2] < 128).all()


def test_copies_are_on_one_side_of_a_drawn_split(tmp_path: Path) -> None:
    root = fill(tmp_path / "data")
    for number in range(8):
        shutil.copy(root / "photo" / "circle" / "0 circle.png", root / "photo" / "circle" / f"copy {number}.png")
    domain = opened(root).load("photo")
    trained = {image.tobytes() for image in domain.train.images}
    assert not any(image.tobytes() in trained for image in domain.test.images)


def test_a_domain_may_lack_a_class(tmp_path: Path) -> None:
    root = fill(tmp_path / "data", ("a", "b", "c"))
    shutil.rmtree(root / "a" / "square")
    benchmark = opened(root)
    assert benchmark.classes == ("2 stars", "circle", "square")
    assert benchmark.default_target == "b"
    assert set(benchmark.load("a").train.labels.tolist()) == {0, 1}


def write_csv(path: Path, rows: list[tuple[str, ...]], columns: str = "path,label,domain", mark: str = "") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(mark)
        writer = csv.writer(file, delimiter=";" if ";" in columns else ",")
        writer.writerow(columns.replace(";", ",").split(","))
        writer.writerows(rows)
    return path


def rows_of(root: Path) -> list[tuple[str, ...]]:
    files = sorted(root.rglob("*.png"))
    return [(str(file.relative_to(root.parent)), file.parent.name, file.parent.parent.name) for file in files]


@pytest.mark.parametrize(("columns", "mark"), [("path,label,domain", ""), ("Path;Label;Domain", "\ufeff")])
def test_a_csv_gives_the_same_as_folders(tmp_path: Path, columns: str, mark: str) -> None:
    root = fill(tmp_path / "data")
    table = opened(write_csv(tmp_path / "tablé.csv", rows_of(root), columns, mark))
    folders = opened(root)
    assert (table.domains, table.classes) == (folders.domains, folders.classes)
    for domain in table.domains:
        one, other = table.load(domain), folders.load(domain)
        assert sorted(i.tobytes() for i in (*one.train.images, *one.test.images)) == sorted(
            i.tobytes() for i in (*other.train.images, *other.test.images)
        )
        assert Counter(one.test.labels.tolist()) == Counter(other.test.labels.tolist())


def test_a_csv_with_a_split(tmp_path: Path) -> None:
    rows = [(*row, "test" if number % 4 == 0 else "train") for number, row in enumerate(rows_of(fill(tmp_path / "d")))]
    benchmark = opened(write_csv(tmp_path / "t.csv", rows, "path,label,domain,split"))
    assert (len(benchmark.load("photo").train), len(benchmark.load("photo").test)) == (18, 6)


def test_images_of_every_kind_are_read(tmp_path: Path) -> None:
    root = fill(tmp_path / "data")
    place = root / "photo" / "circle"
    picture(0, 1).convert("RGBA").save(place / "a.png")
    picture(0, 2).convert("P").save(place / "b.gif")
    picture(0, 3).convert("CMYK").save(place / "c.jpg")
    picture(0, 4).convert("L").save(place / "d.webp")
    Image.fromarray(numpy.full((9, 30), 30000, numpy.uint16)).save(place / "deep.png")
    Image.new("RGB", (1, 1), "red").save(place / "tiny é.png")
    domain = opened(root, image_size=16).load("photo")
    assert len(domain.train) + len(domain.test) == 24 + 6
    everything = numpy.concatenate([domain.train.images, domain.test.images])
    assert any((image == 117).all() for image in everything)  # 30000 / 257
    assert any((image == (255, 0, 0)).all() for image in everything)


def test_decoding_happens_once_and_again_when_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = fill(tmp_path / "data")
    decoded: list[Path] = []
    read = module.read_square

    def counted(path: Path, size: int) -> Any:
        decoded.append(path)
        return read(path, size)

    monkeypatch.setattr(module, "read_square", counted)
    opened(root).load("photo")
    opened(root).load("photo")
    assert len(decoded) == 24
    changed = root / "photo" / "circle" / "0 circle.png"
    picture(2, 77).save(changed)
    domain = opened(root).load("photo")
    assert len(decoded) == 48
    assert 77 in {int(image[4, 4, 2]) for image in (*domain.train.images, *domain.test.images)}
    state = changed.stat()
    os.utime(changed, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    opened(root).load("photo")
    assert len(decoded) == 72


def test_a_damaged_cache_is_built_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    benchmark = opened(fill(tmp_path / "data"))
    before = benchmark.load("photo")
    (stored,) = benchmark.store("photo").folder.glob("images.npy")
    content = bytearray(stored.read_bytes())
    content[-1] ^= 1
    stored.write_bytes(content)
    assert numpy.array_equal(opened(tmp_path / "data").load("photo").train.images, before.train.images)
    assert "built again" in caplog.text


def test_a_full_disk_only_costs_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise SaveError("the disk is full")

    monkeypatch.setattr(ArrayStore, "save", full)
    assert len(opened(fill(tmp_path / "data")).load("photo").train) == 18


def test_unreadable_files_are_refused_by_name_or_skipped(tmp_path: Path) -> None:
    root = fill(tmp_path / "data")
    good = (root / "photo" / "circle" / "1 circle.png").read_bytes()
    (root / "photo" / "circle" / "cut.png").write_bytes(good[: len(good) // 2])
    (root / "photo" / "square" / "text.png").write_text("not an image")
    for _ in range(2):
        with pytest.raises(DataError, match=r"2 of the 26 files") as caught:
            opened(root).load("photo")
        for word in ("cut.png", "text.png", "unreadable"):
            assert word in str(caught.value)
        skipping = opened(root, unreadable="skip").load("photo")
        assert len(skipping.train) + len(skipping.test) == 24  # and on the second turn the cache does not hide them


def break_folder(root: Path, how: str) -> Path:
    """Something a user might hand over by mistake."""
    if how == "empty class":
        (root / "photo" / "triangle").mkdir()
    elif how == "no images":
        for path in root.rglob("*.png"):
            path.rename(path.with_suffix(".txt"))
    elif how == "nothing":
        return root / "nowhere"
    elif how == "one class":
        for label in CLASSES[1:]:
            for domain in ("photo", "sketch"):
                shutil.rmtree(root / domain / label)
    elif how == "one domain":
        shutil.rmtree(root / "sketch")
    elif how == "a domain itself":
        return root / "photo"
    elif how == "images alone":
        return root / "photo" / "circle"
    elif how == "case":
        (root / "sketch").rename(root / "Photo")
    elif how == "parts first":
        (root / "sketch").rename(root / "test")
        (root / "photo").rename(root / "train")
    elif how == "no test part":
        shutil.copytree(root / "photo", root / "third" / "train")
    elif how == "val":
        for part in ("train", "val", "test"):
            shutil.copytree(root / "photo", root / "third" / part)
    elif how == "too deep":
        shutil.copytree(root / "photo", root / "third" / "circle")
    elif how == "no class folders":
        (root / "third").mkdir()
        picture(0, 0).save(root / "third" / "a.png")
    elif how == "reserved":
        (root / "sketch").rename(root / "pooled")
    return root


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("empty class", ("photo/triangle", "put images there")),
        ("no images", ("no picture", "DOMAIN/CLASS")),
        ("nothing", ("nowhere", "give the folder")),
        ("one class", ("one class only", "'circle'")),
        ("one domain", ("one domain only", "'photo'")),
        ("a domain itself", ("one domain with the classes", "circle")),
        ("images alone", ("no domains", "CSV")),
        ("case", ("'Photo' and 'photo'", "case")),
        ("parts first", ("test, train", "domains come first")),
        ("no test part", ("'third'", "train images only")),
        ("val", ("third", "'val'")),
        ("too deep", ("third/circle", "one folder too deep")),
        ("no class folders", ("third", "no class folders")),
        ("reserved", ("'pooled'", "rename")),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_remedy(tmp_path: Path, how: str, words: tuple[str, ...]) -> None:
    path = break_folder(fill(tmp_path / "data", count=2), how)
    with pytest.raises(DataError) as caught:
        opened(path)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: [row[:2] for row in rows], ("'domain'", "t.csv")),
        (lambda rows: [*rows, (rows[0][0], "square", "photo")], ("another label",)),
        (lambda rows: [*rows, ("gone.png", "square", "photo")], ("gone.png", "line")),
        (lambda rows: [(path, label, domain.replace("sketch", "PHOTO")) for path, label, domain in rows], ("case",)),
        (lambda rows: [(path, label, domain.replace("sketch", "a/b")) for path, label, domain in rows], ("'a/b'",)),
        (lambda rows: [*rows[:-1], (*rows[-1][:2], "")], ("line", "domain")),
        (lambda rows: rows[:0], ("t.csv",)),
    ],
)  # fmt: skip
def test_a_bad_csv_is_refused_with_a_remedy(tmp_path: Path, change: Any, words: tuple[str, ...]) -> None:
    rows = change(rows_of(fill(tmp_path / "data", count=2)))
    columns = "path,label" if rows and len(rows[0]) == 2 else "path,label,domain"
    with pytest.raises(DataError) as caught:
        opened(write_csv(tmp_path / "t.csv", rows, columns))
    for word in words:
        assert word in str(caught.value)


def test_a_label_outside_the_classes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'2 stars' is outside the classes circle, square"):
        opened(fill(tmp_path / "data"), classes=("circle", "square"))


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({}, "folder.path"),
        ({"path": "x", "image_size": 4}, "folder.image_size"),
        ({"path": "x", "test_share": 1.0}, "folder.test_share"),
        ({"path": "x", "unreadable": "ignore"}, "unreadable"),
        ({"path": "x", "classes": ["a", "a"]}, "folder.classes"),
        ({"paths": "x"}, "folder.paths"),
    ],
)
def test_bad_settings_name_the_key(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        resolve({"benchmark": "folder", "folder": settings})


def test_an_unknown_domain_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'nowhere'.*photo, sketch"):
        opened(fill(tmp_path / "data")).load("nowhere")


def test_a_configuration_is_checked_from_names_alone(tmp_path: Path) -> None:
    """No image is decoded and nothing heavy imported; a thousand files take a moment."""
    root = fill(tmp_path / "data", count=170)
    code = (
        "import sys, time; from galafed.config import resolve; start = time.perf_counter();"
        f"run = resolve({{'benchmark': 'folder', 'folder': {{'path': {str(root)!r}, 'image_size': 32}}}});"
        "print(run.target, run.sources, time.perf_counter() - start < 1);"
        "print([name for name in ('torch', 'PIL', 'numpy', 'pyarrow', 'scipy', 'sklearn') if name in sys.modules])"
    )
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["photo ('sketch',) True", "[]"]
    assert time.perf_counter() - started < 10
