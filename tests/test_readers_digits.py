"""Each digit reader gives back what a file of its format says, or names the file and the remedy."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from galafed.errors import DataError
from galafed.readers import csv_pixels, hdf5, idx, labelled_folder, libsvm, matlab, matlab_arrays
from galafed.readers.base import DIGITS, Raw

LABELS = np.array([3, 0, 9, 7, 0, 1])
GREY = np.arange(6 * 28 * 28).reshape(6, 28, 28).astype(np.uint8)
COLOUR = (np.arange(6 * 32 * 32 * 3) * 7 % 251).reshape(6, 32, 32, 3).astype(np.uint8)


def agrees(raw: Raw, images: NDArray[Any], labels: NDArray[Any] = LABELS) -> None:
    """The images, the labels and their types are the expected ones."""
    assert isinstance(raw.images, np.ndarray)
    assert raw.images.dtype == np.uint8
    assert np.array_equal(raw.images, images)
    assert raw.labels.dtype == np.int64
    assert raw.labels.tolist() == labels.tolist()
    assert raw.classes == DIGITS


def refused(path: Path, call: Callable[[], Raw], *words: str) -> None:
    """The call ends with an error that names the file, the trouble and a remedy."""
    with pytest.raises(DataError) as caught:
        call()
    message = str(caught.value)
    assert str(path) in message
    assert any(remedy in message for remedy in ("fetch", "give", "correct", "unpack", "save", "check"))
    for word in words:
        assert word in message


# idx


def idx_images(images: NDArray[Any] = GREY) -> bytes:
    return struct.pack(">4I", 0x803, *images.shape) + images.tobytes()


def idx_labels(labels: NDArray[Any] = LABELS) -> bytes:
    return struct.pack(">2I", 0x801, len(labels)) + labels.astype(np.uint8).tobytes()


def write_idx(folder: Path, images: bytes, labels: bytes) -> tuple[Path, Path]:
    paths = folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"
    for path, content in zip(paths, (images, labels), strict=True):
        path.write_bytes(content)
    return paths


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    agrees(idx.read(*write_idx(tmp_path, pack(idx_images()), pack(idx_labels()))), GREY)


@pytest.mark.parametrize(
    ("images", "labels", "at_fault", "word"),
    [
        (idx_labels(), idx_labels(), 0, "0x00000801"),
        (idx_images(), idx_images(), 1, "0x00000803"),
        (b"", idx_labels(), 0, "nothing"),
        (b"<html>not found</html>", idx_labels(), 0, "not an idx file"),
        (idx_images()[:10], idx_labels(), 0, "truncated"),
        (idx_images()[:-1], idx_labels(), 0, "truncated"),
        (idx_images() + b"\0", idx_labels(), 0, "goes on"),
        (gzip.compress(idx_images())[:-20], idx_labels(), 0, "cannot be read"),
        (struct.pack(">4I", 0x803, 2**32 - 1, 2**32 - 1, 28), idx_labels(), 0, "damaged"),
        (struct.pack(">4I", 0x803, 2**31 // 784, 28, 28), idx_labels(), 0, "truncated"),
        (struct.pack(">4I", 0x803, 6, 0, 28), idx_labels(), 0, "damaged"),
        (idx_images(), idx_labels(LABELS[:4]), 0, "6 images"),
        (idx_images(), idx_labels(np.array([1, 2, 10, 3, 4, 5])), 1, "label 10"),
        (idx_images(GREY[:0]), idx_labels(LABELS[:0]), 0, "no image"),
    ],
)
def test_bad_idx(tmp_path: Path, images: bytes, labels: bytes, at_fault: int, word: str) -> None:
    paths = write_idx(tmp_path, images, labels)
    refused(paths[at_fault], lambda: idx.read(*paths), word)


def test_missing_file(tmp_path: Path) -> None:
    images, labels = write_idx(tmp_path, idx_images(), idx_labels())
    refused(tmp_path / "nowhere", lambda: idx.read(tmp_path / "nowhere", labels), "does not exist")
    refused(tmp_path, lambda: idx.read(images, tmp_path), "is a folder")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), zipped=st.booleans())
def test_damaged_idx_is_right_or_refused(tmp_path: Path, data: st.DataObject, zipped: bool) -> None:
    whole = gzip.compress(idx_images()) if zipped else idx_images()
    damaged = damage(whole, data)
    paths = write_idx(tmp_path, damaged, idx_labels())
    with contextlib.suppress(DataError):
        raw = idx.read(*paths)
        # Only pixels of a plain file, which has no checksum, can differ unnoticed.
        assert np.array_equal(raw.images, GREY) or (not zipped and len(damaged) == len(whole))
        assert raw.labels.tolist() == LABELS.tolist()


def damage(content: bytes, data: st.DataObject, header: int = 24) -> bytes:
    """The content cut off somewhere, or with a few bytes replaced."""
    if data.draw(st.booleans(), label="cut"):
        return content[: data.draw(st.integers(0, len(content) - 1), label="length")]
    changed = bytearray(content)
    # The first bytes matter most: the header is there.
    place = st.one_of(st.integers(0, header), st.integers(0, len(content) - 1))
    for where in data.draw(st.lists(place, min_size=1, max_size=4), label="places"):
        changed[where] = data.draw(st.integers(0, 255), label="byte")
    return bytes(changed)


# MATLAB


def write_mat(folder: Path, compressed: bool = True, **content: Any) -> Path:
    path = folder / "train_32x32.mat"
    scipy.io.savemat(path, content, do_compression=compressed)
    return path


def published(images: NDArray[Any] = COLOUR) -> NDArray[Any]:
    """Images [n, h, w, 3] as SVHN stores them: [h, w, 3, n]."""
    return np.moveaxis(images, 0, -1)


@pytest.mark.parametrize("compressed", [True, False])
def test_svhn(tmp_path: Path, compressed: bool) -> None:
    labels = np.where(LABELS == 0, 10, LABELS).astype(np.uint8)[:, None]
    other = {"cells": np.array([1, "a"], object), "text": "abc", "structure": {"a": 1}}
    raw = matlab.read(write_mat(tmp_path, compressed, **other, X=published(), y=labels))
    agrees(raw, COLOUR)
    assert raw.images.flags.c_contiguous  # type: ignore[union-attr]


def test_svhn_of_one_image(tmp_path: Path) -> None:
    agrees(matlab.read(write_mat(tmp_path, X=COLOUR[0], y=[[10]])), COLOUR[:1], np.array([0]))


@pytest.mark.parametrize("zero", [0, 10])
def test_syn(tmp_path: Path, zero: int) -> None:
    labels = np.where(LABELS == 0, zero, LABELS).astype(np.float64)
    agrees(matlab.read(write_mat(tmp_path, X=published(), y=labels)), COLOUR)


def test_syn_number_holds_both_splits(tmp_path: Path) -> None:
    path = write_mat(
        tmp_path,
        train_data=COLOUR,
        train_label=LABELS[:, None],
        test_data=COLOUR[:2].astype(np.float64),
        test_label=LABELS[:2, None],
    )
    agrees(matlab.read(path, "train"), COLOUR)
    agrees(matlab.read(path, "test"), COLOUR[:2], LABELS[:2])


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({"X": published()}, "it has X"),
        ({"z": [1]}, "neither X and y"),
        ({"X": published(), "y": LABELS[:3]}, "6 images but 3 labels"),
        ({"X": published(), "y": LABELS + 5}, "label 14"),
        ({"X": published(), "y": [-1, 0, 0, 0, 0, 0]}, "label -1"),
        ({"X": published(), "y": [0.5, 0, 0, 0, 0, 0]}, "label 0.5"),
        ({"X": published(), "y": [float("nan"), 0, 0, 0, 0, 0]}, "label nan"),
        ({"X": published(), "y": np.array(list("abcdef"), object)}, "it has X"),
        ({"X": published(), "y": "abcdef"}, "it has X"),
        ({"X": published(), "y": np.arange(6) * 1j}, "it has X"),
        ({"X": GREY, "y": LABELS}, "shape"),
        ({"X": published().astype(np.float64) * 2, "y": LABELS}, "pixels between"),
    ],
)
def test_bad_matlab_content(tmp_path: Path, content: dict[str, Any], word: str) -> None:
    path = write_mat(tmp_path, **content)
    refused(path, lambda: matlab.read(path), word)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8", "i8", "u8"])
@pytest.mark.parametrize("compressed", [True, False])
def test_every_type_of_number(tmp_path: Path, dtype: str, compressed: bool) -> None:
    expected = np.arange(2 * 3 * 5).reshape(2, 3, 5).astype(dtype)
    path = write_mat(tmp_path, compressed, first=expected[..., :1], second=expected, third=np.float64(7))
    found, names = matlab_arrays.read(path, ("second", "third"))
    assert names == ("first", "second", "third")
    assert set(found) == {"second", "third"}
    assert np.array_equal(found["second"], scipy.io.loadmat(path)["second"])
    assert np.array_equal(found["second"], expected)
    assert found["second"].dtype == np.dtype(dtype)
    assert found["third"].tolist() == [[7]]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), compressed=st.booleans())
def test_damaged_matlab_is_right_or_refused(tmp_path: Path, data: st.DataObject, compressed: bool) -> None:
    path = write_mat(tmp_path, compressed, X=published(COLOUR[:2, :4, :4]), y=LABELS[:2])
    whole = path.read_bytes()
    damaged = damage(whole, data, header=320)
    path.write_bytes(damaged)
    with contextlib.suppress(DataError):
        raw = matlab.read(path)
        if compressed or len(damaged) < len(whole):
            assert np.array_equal(raw.images, COLOUR[:2, :4, :4])
            assert raw.labels.tolist() == LABELS[:2].tolist()


def test_damaged_matlab(tmp_path: Path) -> None:
    path = write_mat(tmp_path, X=published(), y=LABELS)
    whole = path.read_bytes()
    for length in (0, 3, 100, 130, 200, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(path, lambda: matlab.read(path))
    with h5py.File(path, "w", userblock_size=512) as file:
        file["X"] = [1]
    with path.open("r+b") as start:
        start.write(b"MATLAB 7.3 MAT-file".ljust(124) + struct.pack("<H", 0x0200) + b"IM")
    refused(path, lambda: matlab.read(path), "7.3")


# USPS


SIXTEEN = (np.arange(6 * 256) * 11 % 256).reshape(6, 16, 16).astype(np.uint8)


def libsvm_text(images: NDArray[Any] = SIXTEEN, labels: NDArray[Any] = LABELS) -> str:
    values = images.reshape(len(images), -1) / 127.5 - 1
    lines = [
        f"{label + 1} " + " ".join(f"{place}:{value:.6f}" for place, value in enumerate(row, 1))
        for label, row in zip(labels, values, strict=True)
    ]
    return "".join(line + " \n" for line in lines)


def write_libsvm(folder: Path, text: str) -> Path:
    path = folder / "usps.bz2"
    path.write_bytes(bz2.compress(text.encode()))
    return path


def test_usps_libsvm(tmp_path: Path) -> None:
    agrees(libsvm.read(write_libsvm(tmp_path, libsvm_text())), SIXTEEN)
    plain = tmp_path / "usps"
    plain.write_text(libsvm_text())
    agrees(libsvm.read(plain), SIXTEEN)


def test_libsvm_leaves_out_zeros(tmp_path: Path) -> None:
    raw = libsvm.read(write_libsvm(tmp_path, "10 2:1.0 256:-1\n"))
    assert raw.labels.tolist() == [9]
    flat = np.asarray(raw.images).reshape(-1)
    assert flat[[1, 255]].tolist() == [255, 0]
    assert set(np.delete(flat, [1, 255]).tolist()) == {128}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no image"),
        ("11 1:0\n", "label 10"),
        ("0 1:0\n", "label -1"),
        ("1.5 1:0\n", "label 0.5"),
        ("nan 1:0\n", "label nan"),
        ("1 257:0\n", "line 1"),
        ("1 0:0\n", "line 1"),
        ("1 1:0\n1 2:0 1:0\n", "line 2"),
        ("1 1:0 1:0\n", "line 1"),
        ("1 1:2\n", "expected -1 to 1"),
        ("1 1:nan\n", "expected -1 to 1"),
        ("1 99999999999999999999:1\n", "line 1"),
        ("1 one:0\n", "line 1"),
        ("1 1\n", "line 1"),
        ("<html></html>\n", "line 1"),
    ],
)
def test_bad_libsvm(tmp_path: Path, text: str, word: str) -> None:
    path = write_libsvm(tmp_path, text)
    refused(path, lambda: libsvm.read(path), word)


def test_truncated_bzip2(tmp_path: Path) -> None:
    path = write_libsvm(tmp_path, libsvm_text())
    whole = path.read_bytes()
    for content in (whole[:-1], whole[:50], b"BZh9" + whole[14:]):
        path.write_bytes(content)
        refused(path, lambda: libsvm.read(path), "cannot be read")


def write_hdf5(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "usps.h5"
    with h5py.File(path, "w") as file:
        for name, value in content.items():
            file[name] = value
    return path


def test_usps_hdf5(tmp_path: Path) -> None:
    values = SIXTEEN.reshape(6, 256).astype(np.float32) / 255
    path = write_hdf5(
        tmp_path,
        {"train/data": values, "train/target": LABELS, "test/data": values[:2], "test/target": LABELS[:2]},
    )
    agrees(hdf5.read(path), SIXTEEN)
    agrees(hdf5.read(path, "test"), SIXTEEN[:2], LABELS[:2])


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({"data": [[0.0]]}, "'train/data' (it has data)"),
        ({"train/data/deeper": [1]}, "'train/data'"),
        ({"train/data": np.zeros((3, 256)), "train/target": [1, 2]}, "3 images but 2 labels"),
        ({"train/data": np.zeros((2, 255)), "train/target": [1, 2]}, "shape"),
        ({"train/data": np.full((2, 256), 2.0), "train/target": [1, 2]}, "expected 0 to 1"),
        ({"train/data": np.full((2, 256), np.nan), "train/target": [1, 2]}, "expected 0 to 1"),
        ({"train/data": np.zeros((2, 256)), "train/target": [1, 10]}, "label 10"),
        ({"train/data": np.zeros((0, 256)), "train/target": np.zeros(0)}, "no image"),
        ({"train/data": 3.0, "train/target": [1]}, "no array"),
    ],
)
def test_bad_hdf5_content(tmp_path: Path, content: dict[str, Any], word: str) -> None:
    path = write_hdf5(tmp_path, content)
    refused(path, lambda: hdf5.read(path), word)


def test_damaged_hdf5(tmp_path: Path) -> None:
    path = write_hdf5(tmp_path, {"train/data": np.zeros((6, 256)), "train/target": LABELS})
    whole = path.read_bytes()
    for content in (b"", b"not hdf5 at all", whole[:100], whole[: len(whole) // 2]):
        path.write_bytes(content)
        refused(path, lambda: hdf5.read(path))
    with h5py.File(path, "w") as file:
        file.create_dataset("train/data", (2**40, 256), dtype="f4", chunks=True)
        file["train/target"] = LABELS
    refused(path, lambda: hdf5.read(path), "claims")


# MNIST-M


def write_labelled(folder: Path, lines: str) -> tuple[Path, Path]:
    inside = folder / "mnist_m_train"
    inside.mkdir()
    for number, image in enumerate(COLOUR):
        Image.fromarray(image).save(inside / f"{number:08}.png")
    path = folder / "mnist_m_train_labels.txt"
    path.write_text(lines)
    return inside, path


def test_mnistm(tmp_path: Path) -> None:
    order = [4, 0, 5, 1]
    paths = write_labelled(tmp_path, "".join(f"{number:08}.png {LABELS[number]}\n" for number in order))
    raw = labelled_folder.read(*paths)
    agrees(raw, COLOUR[order], LABELS[order])
    assert [path.name for path in raw.columns["path"]] == [f"{number:08}.png" for number in order]


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ("", "lists no picture"),
        ("00000000.png\n", "line 1"),
        ("00000000.png 1\n00000001.png one\n", "line 2"),
        ("00000000.png 10\n", "label 10"),
        ("00000000.png -1\n", "line 1"),
        ("00000000.png 1\n00000000.png 2\n", "twice"),
        ("../00000000.png 1\n", "outside"),
        ("/etc/passwd 1\n", "outside"),
    ],
)
def test_bad_list(tmp_path: Path, lines: str, word: str) -> None:
    folder, labels = write_labelled(tmp_path, lines)
    refused(labels, lambda: labelled_folder.read(folder, labels), word)


def test_picture_missing_or_folder_missing(tmp_path: Path) -> None:
    folder, labels = write_labelled(tmp_path, "00000000.png 1\n00000099.png 1\n")
    refused(folder / "00000099.png", lambda: labelled_folder.read(folder, labels), "does not exist")
    refused(tmp_path / "none", lambda: labelled_folder.read(tmp_path / "none", labels), "not a folder")
    labels.write_bytes(b"\xff\xfe\x00\x01")
    refused(labels, lambda: labelled_folder.read(folder, labels), "not text")


# ARDIS and TMNIST


def write_ardis(folder: Path, pixels: Any, labels: Any, delimiter: str) -> tuple[Path, Path]:
    paths = folder / "ARDIS_train_2828.csv", folder / "ARDIS_train_labels.csv"
    for path, content in zip(paths, (pixels, labels), strict=True):
        np.savetxt(path, np.asarray(content, dtype=float), delimiter=delimiter)
    return paths


@pytest.mark.parametrize("delimiter", [" ", ","])
@pytest.mark.parametrize("labels", [np.eye(10)[LABELS], LABELS])
def test_ardis(tmp_path: Path, labels: NDArray[Any], delimiter: str) -> None:
    agrees(csv_pixels.read(*write_ardis(tmp_path, GREY.reshape(6, -1), labels, delimiter)), GREY)


@pytest.mark.parametrize(
    ("pixels", "labels", "at_fault", "word"),
    [
        (np.zeros((2, 784)), [1, 10], 1, "label 10"),
        (np.zeros((2, 784)), [1, 2, 3], 0, "2 images"),
        (np.zeros((2, 784)), np.zeros((2, 10)), 1, "line 1"),
        (np.zeros((2, 784)), [[1] + [0] * 9, [1, 1] + [0] * 8], 1, "line 2"),
        (np.zeros((2, 784)), np.zeros((2, 4)), 1, "4 columns"),
        (np.zeros((2, 783)), [1, 2], 0, "783 pixels"),
        (np.full((2, 784), 256), [1, 2], 0, "expected 0 to 255"),
        (np.full((2, 784), np.nan), [1, 2], 0, "expected 0 to 255"),
    ],
)
def test_bad_ardis(tmp_path: Path, pixels: Any, labels: Any, at_fault: int, word: str) -> None:
    paths = write_ardis(tmp_path, pixels, labels, " ")
    refused(paths[at_fault], lambda: csv_pixels.read(*paths), word)


@pytest.mark.parametrize("content", [b"", b"\n1 2\n", b"1 2\n1\n", b"a b\n", b"\xff\xfe\x00"])
def test_text_that_is_no_table(tmp_path: Path, content: bytes) -> None:
    pixels, labels = write_ardis(tmp_path, np.zeros((2, 784)), [1, 2], " ")
    pixels.write_bytes(content)
    refused(pixels, lambda: csv_pixels.read(pixels, labels))


def write_tmnist(folder: Path, lines: list[str], header: str = "") -> Path:
    path = folder / "TMNIST_Data.csv"
    names = header or "names,labels," + ",".join(str(place) for place in range(1, 785))
    path.write_text("\n".join([names, *lines]) + "\n", encoding="utf-8")
    return path


def tmnist_lines() -> list[str]:
    return [
        f'"Nöto, Sans {number}",{LABELS[number]},' + ",".join(str(level) for level in image.reshape(-1))
        for number, image in enumerate(GREY)
    ]


def test_tmnist(tmp_path: Path) -> None:
    raw = csv_pixels.read(write_tmnist(tmp_path, tmnist_lines()))
    agrees(raw, GREY)
    assert raw.columns["font"][1] == "Nöto, Sans 1"


ZEROS = ",0" * 784


@pytest.mark.parametrize(
    ("lines", "header", "word"),
    [
        ([], "", "no"),
        (["a,10" + ZEROS], "", "label 10"),
        (["a," + ZEROS], "", "no label"),
        (["a,x" + ZEROS], "", "not a table"),
        (["a,1" + ",0" * 783], "", "not a table"),
        (["a,1" + ",0" * 783 + ",256"], "", "not a table"),
        (["a,1" + ",0" * 783 + ",-1"], "", "not a table"),
        (["a,1" + ",0" * 783 + ","], "", "'784'"),
        (["a,1,0,0,0,0"], "names,label,1,2,3,4", "'labels'"),
        (["a,1,0,0,0,0"], "name,labels,1,2,3,4", "'names'"),
        (["a,1,0,0,0"], "names,labels,1,2,3", "3 pixels"),
        (["a,1,0,0,0,0"], "names,labels,1,2,3,3", "one name"),
        (["a,1"], "names,labels", "0 pixels"),
    ],
)
def test_bad_tmnist(tmp_path: Path, lines: list[str], header: str, word: str) -> None:
    path = write_tmnist(tmp_path, lines, header)
    refused_table(path, word)


def refused_table(path: Path, word: str) -> None:
    with pytest.raises(DataError) as caught:
        csv_pixels.read(path)
    assert str(path) in str(caught.value)
    assert word in str(caught.value)
