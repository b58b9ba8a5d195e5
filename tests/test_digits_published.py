"""The digit benchmarks find the files as they are published, each in its own format."""

from __future__ import annotations

import bz2
import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat

from digit_files import COUNTS, RAW, digit_images, photographs, write_all, write_parquet
from galafed.benchmarks.digit_18 import Digit18, Digit18Settings
from galafed.digits.benchmark import DigitBenchmark
from galafed.digits.domains import LARGE
from galafed.digits.subsets import choose, divide_by_font, divide_shuffled
from galafed.errors import DataError

Images = NDArray[np.uint8]
Data = dict[str, tuple[Images, list[int]]]
"""Images and labels of both parts."""


def write_idx(folder: Path, data: Data) -> None:
    for part, name in (("train", "train"), ("test", "t10k")):
        images, labels = data[part]
        head = struct.pack(">IIII", 0x803, *images.shape)
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + images.tobytes()))
        head = struct.pack(">II", 0x801, len(labels))
        (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(head + bytes(labels)))


def write_svhn(folder: Path, data: Data, prefix: str = "") -> None:
    for part, (images, labels) in data.items():
        numbers = np.array([label or 10 for label in labels])[:, None]
        savemat(folder / f"{prefix}{part}_32x32.mat", {"X": images.transpose(1, 2, 3, 0), "y": numbers})


def write_synth(folder: Path, data: Data) -> None:
    write_svhn(folder, data, "synth_")


def write_syn_number(folder: Path, data: Data) -> None:
    arrays = {f"{part}_data": images for part, (images, _) in data.items()}
    savemat(folder / "syn_number.mat", arrays | {f"{part}_label": np.array(data[part][1])[:, None] for part in data})


def write_libsvm(folder: Path, data: Data) -> None:
    for part, name in (("train", "usps.bz2"), ("test", "usps.t.bz2")):
        lines = []
        for image, label in zip(*data[part], strict=True):
            values = image.reshape(-1) / 127.5 - 1
            lines.append(f"{label + 1} " + " ".join(f"{place}:{value:.6f}" for place, value in enumerate(values, 1)))
        (folder / name).write_bytes(bz2.compress("\n".join(lines).encode()))


def write_hdf5(folder: Path, data: Data) -> None:
    with h5py.File(folder / "usps.h5", "w") as file:
        for part, (images, labels) in data.items():
            file[f"{part}/data"] = images.reshape(len(labels), -1) / 255
            file[f"{part}/target"] = labels


def write_mnistm(folder: Path, data: Data) -> None:
    for part, (images, labels) in data.items():
        pictures = folder / "mnist_m" / f"mnist_m_{part}"
        pictures.mkdir(parents=True)
        for number, image in enumerate(images):
            Image.fromarray(image).save(pictures / f"{number:08}.png")
        lines = [f"{number:08}.png {label}" for number, label in enumerate(labels)]
        (folder / "mnist_m" / f"mnist_m_{part}_labels.txt").write_text("\n".join(lines))


def write_ardis(folder: Path, data: Data) -> None:
    for part, (images, labels) in data.items():
        np.savetxt(folder / f"ARDIS_{part}_2828.csv", images.reshape(len(labels), -1).astype(float))
        np.savetxt(folder / f"ARDIS_{part}_labels.csv", np.eye(10)[labels])


Writer = Callable[[Path, Data], None]
PUBLISHED: list[tuple[str, Writer, int, bool]] = [
    ("mnist", write_idx, 28, False),
    ("svhn", write_svhn, 32, True),
    ("syn", write_synth, 32, True),
    ("syn", write_syn_number, 32, True),
    ("usps", write_libsvm, 16, False),
    ("usps", write_hdf5, 16, False),
    ("mnistm", write_mnistm, 32, True),
    ("ardis", write_ardis, 28, False),
]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small counts, an empty cache, and a folder for data."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setattr(DigitBenchmark, "counts", COUNTS)
    monkeypatch.setenv("GALAFED_DATA", str(folder))
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.mark.parametrize(("base", "write", "size", "colour"), PUBLISHED)
def test_published_files_are_found_and_read(data: Path, base: str, write: Writer, size: int, colour: bool) -> None:
    made = {p: digit_images(RAW[p], size, colour=colour, seed=p == "test") for p in ("train", "test")}
    (data / base).mkdir()
    write(data / base, made)
    benchmark = Digit18(Digit18Settings(usps="original"))
    assert benchmark.notes()[base] == ""
    loaded = benchmark.load(base)
    for part, split, rows in zip(("train", "test"), (loaded.train, loaded.test), benchmark.bases(base), strict=True):
        assert len(split) == (COUNTS if base in LARGE else RAW)[part]
        images, labels = made[part]
        rows = rows - (RAW["train"] if part == "test" else 0)
        assert split.labels.tolist() == np.array(labels)[rows].tolist()
        if size == 32:
            assert np.array_equal(split.images, images[rows])


def test_undivided_tmnist_is_split_by_font(data: Path) -> None:
    images, labels = digit_images(400, 28, colour=False, seed=0)
    fonts = [f"font {number // 10}" for number in range(400)]
    (data / "tmnist").mkdir()
    header = ",".join(["names", "labels", *map(str, range(1, 785))])
    rows = [
        f"{font},{label}," + ",".join(map(str, image.reshape(-1)))
        for font, label, image in zip(fonts, labels, images, strict=True)
    ]
    (data / "tmnist" / "TMNIST_Data.csv").write_text("\n".join([header, *rows]))
    benchmark = Digit18()
    train, test = benchmark.bases("tmnist")
    assert sorted([*train, *test]) == list(range(400))
    assert len(test) == 100
    assert {fonts[row] for row in train}.isdisjoint(fonts[row] for row in test)
    loaded = benchmark.load("tmnist")
    assert loaded.note == ""
    assert loaded.train.labels.tolist() == np.array(labels)[train].tolist()


def test_photographs_as_published(data: Path) -> None:
    write_all(data)
    for part in ("train", "test"):
        (data / "photos" / f"{part}.parquet").unlink()
        folder = data / "photos" / "BSR" / "BSDS500" / "data" / "images" / part
        folder.mkdir(parents=True)
        Image.fromarray(photographs(part)[0]).save(folder / "1.png")
        (folder / "Thumbs.db").write_bytes(b"not a picture")
    colours = {tuple(pixel) for pixel in np.asarray(Digit18().load("uspsm").test.images).reshape(-1, 3).tolist()}
    assert colours == {(60, 70, 80), (195, 185, 175)}


def test_photographs_that_cannot_be_cropped_are_refused(data: Path) -> None:
    write_all(data)
    write_parquet(data / "photos" / "test.parquet", photographs("test")[:, :31], [0] * 3)
    with pytest.raises(DataError, match=r"test\.parquet.*31 pixels"):
        Digit18().load("uspsm")


def test_subset_depends_on_base_and_part_only() -> None:
    one = choose("mnist", "train", 60, COUNTS)
    assert len(set(one.tolist())) == COUNTS["train"]
    assert one.tolist() == choose("mnist", "train", 60, COUNTS).tolist()
    assert one.tolist() != choose("svhn", "train", 60, COUNTS).tolist()
    assert sorted(choose("usps", "train", 60, COUNTS)) == list(range(60))
    assert sorted(choose("mnist", "test", 20, COUNTS)) == list(range(20))


def test_sizes_of_usps_are_those_of_the_papers_file_and_its_images_always_the_same() -> None:
    rows = divide_shuffled("usps", 9298)
    assert (len(rows["train"]), len(rows["test"])) == (7438, 1860)
    assert np.array_equal(np.sort(np.concatenate([rows["train"], rows["test"]])), np.arange(9298))
    assert rows["test"][:5].tolist() == [3003, 5361, 5663, 1565, 7305]


def test_sizes_of_tmnist_are_those_of_the_paper() -> None:
    rows = divide_by_font([f"font {number // 10}" for number in range(29900)])
    assert (len(rows["train"]), len(rows["test"])) == (22400, 7500)
