"""Pictures of every mode are decoded as documented; damaged ones are refused by name; folders and lists of them too."""

from __future__ import annotations

import contextlib
import io
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from galafed.errors import DataError
from galafed.readers import csv_paths, folders, parquet, pictures

RGB = (np.arange(5 * 7 * 3) * 13 % 256).reshape(5, 7, 3).astype(np.uint8)
GREY = RGB[..., 0]


def saved(path: Path, picture: Image.Image, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path, **options)
    return path


def content(picture: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def png(width: int, height: int) -> bytes:
    """The start of a PNG file that claims any size, with hardly any data."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


def test_importing_the_readers_is_cheap() -> None:
    code = (
        "import sys, pkgutil, importlib, galafed.readers as readers, galafed.downloads\n"
        "for module in pkgutil.iter_modules(readers.__path__):\n"
        "    importlib.import_module('galafed.readers.' + module.name)\n"
        "heavy = {'numpy', 'PIL', 'pyarrow', 'scipy', 'h5py', 'torch', 'sklearn', 'pooch', 'requests'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# One picture


def test_plain_modes() -> None:
    assert np.array_equal(pictures.decode(content(Image.fromarray(GREY), "PNG"), "x"), GREY)
    assert np.array_equal(pictures.decode(content(Image.fromarray(RGB), "PNG"), "x"), RGB)
    assert np.array_equal(pictures.decode(content(Image.fromarray(RGB), "BMP"), "x"), RGB)
    assert np.array_equal(pictures.decode(content(Image.fromarray(RGB), "TIFF"), "x"), RGB)
    assert np.array_equal(pictures.decode(content(Image.fromarray(RGB), "PPM"), "x"), RGB)
    assert np.array_equal(pictures.decode(content(Image.fromarray(RGB), "WEBP", lossless=True), "x"), RGB)
    bilevel = pictures.decode(content(Image.fromarray(GREY > 100), "PNG"), "x")
    assert np.array_equal(bilevel, (GREY > 100) * np.uint8(255))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits(kind: str) -> None:
    deep = np.array([[0, 128, 129, 257], [32896, 65407, 65408, 65535]], np.uint16)
    levels = pictures.decode(content(Image.fromarray(deep), kind), "x")
    assert levels.dtype == np.uint8
    assert levels.tolist() == [[0, 0, 1, 1], [128, 255, 255, 255]]


def test_32_bits_only_as_far_as_their_scale_is_known() -> None:
    deep = np.array([[0, 65535]], np.int32)
    assert pictures.decode(content(Image.fromarray(deep), "TIFF"), "x").tolist() == [[0, 255]]
    for bad in (np.array([[0, 65536]], np.int32), np.array([[-1, 0]], np.int32), np.array([[0.5]], np.float32)):
        with pytest.raises(DataError, match="8 or 16 bits"):
            pictures.decode(content(Image.fromarray(bad), "TIFF"), "x")


def test_transparency_is_laid_on_white() -> None:
    half = np.array([[[200, 0, 0, 255], [10, 20, 30, 0], [0, 0, 0, 51]]], np.uint8)
    levels = pictures.decode(content(Image.fromarray(half), "PNG"), "x")
    assert levels.tolist() == [[[200, 0, 0], [255, 255, 255], [204, 204, 204]]]
    grey = pictures.decode(content(Image.fromarray(half).convert("LA"), "PNG"), "x")
    assert grey.shape == (1, 3)
    assert grey[0, 1:].tolist() == [255, 204]


def test_palette_with_and_without_transparency() -> None:
    picture = Image.fromarray(np.array([[0, 1, 2]], np.uint8))
    picture = picture.convert("P")
    picture.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    expected = [[[255, 0, 0], [0, 255, 0], [0, 0, 255]]]
    assert pictures.decode(content(picture, "PNG"), "x").tolist() == expected
    assert pictures.decode(content(picture, "GIF"), "x").tolist() == expected
    expected[0][1] = [255, 255, 255]
    assert pictures.decode(content(picture, "PNG", transparency=1), "x").tolist() == expected
    assert pictures.decode(content(picture, "PNG", transparency=b"\xff\x00\xff"), "x").tolist() == expected


def test_cmyk_and_grey_jpeg() -> None:
    cyan = pictures.decode(content(Image.new("CMYK", (16, 16), (255, 0, 0, 0)), "JPEG"), "x")
    assert cyan.shape == (16, 16, 3)
    assert np.abs(cyan.astype(int) - [0, 255, 255]).max() < 6
    assert pictures.decode(content(Image.new("L", (16, 16), 90), "JPEG"), "x").shape == (16, 16)


def test_smallest_picture_first_frame_and_rotation() -> None:
    assert pictures.decode(content(Image.new("RGB", (1, 1), "red"), "PNG"), "x").tolist() == [[[255, 0, 0]]]
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("blue", "red")]
    first = pictures.decode(content(frames[0], "GIF", save_all=True, append_images=frames[1:]), "x")
    assert first[0, 0].tolist() == [0, 0, 255]
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: row 0 is the right-hand side
    turned = pictures.decode(content(Image.fromarray(RGB), "PNG", exif=exif), "x")
    assert np.array_equal(turned, np.rot90(RGB, -1))


@pytest.mark.parametrize(("width", "height"), [(20000, 20000), (10000, 10000), (9000, 9000), (2**31 - 1, 2**31 - 1)])
def test_bombs_are_refused_before_they_are_decoded(width: int, height: int) -> None:
    with pytest.raises(DataError, match=r"bomb\.png: is too large .* make it smaller"):
        pictures.decode(png(width, height), "bomb.png")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not a picture at all",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n",
        b"\x89PNG\r\n\x1a\n",
        png(7, 5),
        content(Image.fromarray(RGB), "JPEG")[:-60],
        content(Image.fromarray(RGB), "PNG")[:-40],
        content(Image.fromarray(RGB), "GIF")[:-20],
        content(Image.fromarray(RGB), "BMP")[:-20],
        content(Image.fromarray(RGB), "TIFF")[:60],
        content(Image.fromarray(RGB), "WEBP")[:-20],
    ],
)
def test_what_is_no_picture_is_refused_by_name(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "ein Bild – 画像.png"
    path.write_bytes(body)
    with pytest.raises(DataError, match=r"ein Bild – 画像\.png: .*(replace|remove)"):
        pictures.read(path)


def test_a_changed_byte_in_the_pixels_of_a_png_file_is_noticed() -> None:
    smooth = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)
    whole = content(Image.fromarray(smooth), "PNG")
    start = whole.index(b"IDAT") + 4
    for place in range(start, len(whole) - 16):
        changed = bytearray(whole)
        changed[place] ^= 1
        with contextlib.suppress(DataError):
            assert np.array_equal(pictures.decode(bytes(changed), "x"), smooth)


def test_names_that_are_odd(tmp_path: Path) -> None:
    path = saved(tmp_path / "mit Leerzeichen é" / "数字 0.PNG", Image.fromarray(RGB))
    assert np.array_equal(pictures.read(path), RGB)
    with pytest.raises(DataError, match="does not exist"):
        pictures.read(tmp_path / ("x" * 5000))
    with pytest.raises(DataError, match="does not exist"):
        pictures.read(tmp_path / "a\0b")


def test_a_name_that_is_not_text(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.png"))
    try:
        path.write_bytes(b"no picture")
    except OSError:
        pytest.skip("this file system only has names that are text")
    with pytest.raises(DataError) as caught:
        pictures.read(path)
    str(caught.value).encode()  # can be shown


@settings(max_examples=300)
@given(data=st.data(), kind=st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"]))
def test_damaged_pictures_are_right_or_refused(data: st.DataObject, kind: str) -> None:
    whole = content(Image.fromarray(RGB), kind)
    expected = pictures.decode(whole, "x")
    if data.draw(st.booleans(), label="cut"):
        damaged = whole[: data.draw(st.integers(0, len(whole) - 1), label="length")]
    else:
        changed = bytearray(whole)
        for where in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4), label="places"):
            changed[where] = data.draw(st.integers(0, 255), label="byte")
        damaged = bytes(changed)
    with contextlib.suppress(DataError):
        levels = pictures.decode(damaged, "damaged")
        assert levels.dtype == np.uint8
        assert levels.ndim == 2 or (levels.ndim == 3 and levels.shape[2] == 3)
        # A PNG file has checksums; of the others only what is cut off can be noticed.
        if kind == "PNG" or len(damaged) < len(whole):
            assert np.array_equal(levels, expected)


# Folders


def write_folder(root: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        saved(root / name, Image.fromarray(RGB + np.uint8(number)))
    return root


def test_image_folder(tmp_path: Path) -> None:
    root = write_folder(
        tmp_path / "my data", "a/10/x.png", "a/2/y.PNG", "a/2/z.bmp", "Zwei ü/2/q.png", "Zwei ü/10/q.tif"
    )
    (root / "a" / "2" / "notes.txt").write_text("not a picture")
    (root / "a" / "2" / ".DS_Store").write_bytes(b"hidden")
    raw = folders.read(root)
    assert raw.classes == ("2", "10")
    assert raw.columns["domain"] == ["a", "a", "a", "Zwei ü", "Zwei ü"]
    assert raw.labels.tolist() == [0, 0, 1, 0, 1]
    assert [int(image[0, 0, 0]) for image in raw.images] == [1, 2, 0, 3, 4]
    listing = folders.list_folder(root)
    assert listing.domains == ("a", "Zwei ü")
    assert [path.name for path in listing.ignored] == ["notes.txt"]
    one = folders.read(root, "Zwei ü")
    assert one.labels.tolist() == [0, 1]
    assert set(one.columns["domain"]) == {"Zwei ü"}


def test_a_class_has_one_number_in_all_domains(tmp_path: Path) -> None:
    root = write_folder(tmp_path, "a/apple/1.png", "a/pear/1.png", "b/pear/1.png")
    raw = folders.read(root, "b")
    assert raw.classes == ("apple", "pear")
    assert raw.labels.tolist() == [1]


@pytest.mark.parametrize("wrapper", ["", "images/", "Image/"])
def test_office_layouts_and_names(tmp_path: Path, wrapper: str) -> None:
    root = write_folder(
        tmp_path, f"amazon/{wrapper}back_pack/f.jpg", f"amazon/{wrapper}bike/f.jpg", "caltech/003.backpack/f.jpg"
    )
    raw = folders.read(root, names={"back_pack": "backpack", "003.backpack": "backpack"})
    assert raw.classes == ("backpack",)
    assert raw.columns["domain"] == ["amazon", "caltech"]


def test_splits_in_a_folder(tmp_path: Path) -> None:
    root = write_folder(tmp_path, "a/train/x/1.png", "a/Test/x/1.png", "b/train/1.png", "b/test/1.png")
    raw = folders.read(root)
    assert raw.columns["split"] == ["test", "train", "", ""]
    assert raw.classes == ("test", "train", "x")  # in b these are classes: they hold pictures


def test_sizes_may_differ(tmp_path: Path) -> None:
    root = write_folder(tmp_path, "a/x/1.png", "a/x/2.png")
    saved(root / "a/x/3.png", Image.fromarray(RGB[:2]))
    raw = folders.read(root)
    assert isinstance(raw.images, list)
    assert [image.shape for image in raw.images] == [(5, 7, 3), (5, 7, 3), (2, 7, 3)]
    assert np.array_equal(raw.images[0], RGB)
    assert np.array_equal(raw.images[1], RGB + 1)


def test_bad_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a folder"):
        folders.read(tmp_path / "none")
    with pytest.raises(DataError, match="DOMAIN/CLASS/PICTURE"):
        folders.read(tmp_path)
    root = write_folder(tmp_path / "data", "x/1.png")  # classes without a domain
    with pytest.raises(DataError, match="data/DOMAIN/CLASS/PICTURE"):
        folders.read(root)
    write_folder(root, "a/x/1.png")
    with pytest.raises(DataError, match="no domain 'b'"):
        folders.read(root, "b")
    with pytest.raises(DataError, match="no picture of the classes"):
        folders.read(root, names={"nothing": "nothing"})
    (root / "a" / "leer").mkdir()
    assert folders.list_folder(root).empty == (root / "a" / "leer",)
    with pytest.raises(DataError, match=r"leer: .*remove the folder"):
        folders.read(root)
    (root / "a" / "leer").rmdir()
    (root / "a" / "x" / "2.png").write_text("a text file")
    with pytest.raises(DataError, match=r"2\.png: is not a picture"):
        folders.read(root)


# A list of paths


def write_csv(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    write_folder(folder, "ein bild.png", "ü/b.png", "c.png")
    path = folder / "liste.csv"
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    "text",
    [
        "path,label,domain\nein bild.png,cat,a\nü/b.png,ant,b\nc.png,cat,b\n",
        "\ufeffdomain;label;path\r\na;cat;ein bild.png\r\nb;ant;ü/b.png\r\nb;cat;c.png\r\n",
        'Label\t Path \tDomain\tother\ncat\t"ein bild.png"\ta\t\nant\tü/b.png\tb\t1\n\ncat\tc.png\tb\t\n',
    ],
)
def test_csv_of_paths(tmp_path: Path, text: str) -> None:
    path = write_csv(tmp_path, text)
    raw = csv_paths.read(path)
    assert raw.classes == ("ant", "cat")
    assert raw.labels.tolist() == [1, 0, 1]
    assert raw.columns["domain"] == ["a", "b", "b"]
    assert raw.columns["split"] == ["", "", ""]
    assert [int(image[0, 0, 0]) for image in raw.images] == [0, 1, 2]
    assert csv_paths.read(path, "a").labels.tolist() == [1]


def test_csv_with_splits_and_absolute_paths(tmp_path: Path) -> None:
    path = write_csv(tmp_path, f"path,label,domain,split\n{tmp_path}/c.png,1,a,Train\nc.png,1,b,test\n")
    raw = csv_paths.read(path)
    assert raw.columns["split"] == ["train", "test"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "'path'"),
        ("path,label\nc.png,1\n", "'domain'"),
        ("path,klass,domain\nc.png,1,a\n", "'label'"),
        ("path,label,domain\n", "names no picture"),
        ("path,label,domain\nc.png,,a\n", "line 2: the field 'label'"),
        ("path,label,domain\nc.png,1\n", "line 2: the field 'domain'"),
        ("path,label,domain\nc.png,1,a\nnone.png,1,a\n", "line 3"),
        ("path,label,domain,split\nc.png,1,a,valid\n", "'valid'"),
        ("path,label,domain\nc.png,1,a\nc.png,2,a\n", "another label"),
        ("path,label,domain,label\nc.png,1,a,2\n", "twice"),
        ('path,label,domain\n"c.png,1,a\n', "not a readable CSV"),
        ("path,label,domain\nc.png,1," + "x" * 200000 + "\n", "not a readable CSV"),
    ],
)
def test_bad_csv(tmp_path: Path, text: str, word: str) -> None:
    path = write_csv(tmp_path, text)
    with pytest.raises(DataError) as caught:
        csv_paths.read(path)
    assert str(path) in str(caught.value)
    assert word in str(caught.value)


def test_csv_in_another_encoding_or_domain(tmp_path: Path) -> None:
    path = write_csv(tmp_path, "path,label,domain\nü/b.png,1,a\n", "latin-1")
    with pytest.raises(DataError, match="UTF-8"):
        csv_paths.read(path)
    path = write_csv(tmp_path, "path,label,domain\nc.png,1,a\n")
    with pytest.raises(DataError, match=r"no domain 'b' \(it has a\)"):
        csv_paths.read(path, "b")


# Parquet


def write_parquet(folder: Path, images: Any, labels: Any, **more: Any) -> Path:
    metadata = {"huggingface": '{"info": {"features": {"label": {"names": ["cat", "dog"]}}}}'}
    table = pyarrow.table({"image": images, "label": labels, **more}).replace_schema_metadata(metadata)
    path = folder / "train.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=2)
    return path


def entry(levels: NDArray[np.uint8]) -> dict[str, Any]:
    return {"bytes": content(Image.fromarray(levels), "WEBP", lossless=True), "path": "x.webp"}


def test_parquet(tmp_path: Path) -> None:
    images = [entry(RGB), entry(RGB + 1), entry(RGB + 2)]
    path = write_parquet(tmp_path, images, [1, 0, 1], font=["a", "b", "c"])
    raw = parquet.read(path)
    assert np.array_equal(raw.images, np.stack([RGB, RGB + 1, RGB + 2]))
    assert raw.labels.tolist() == [1, 0, 1]
    assert raw.classes == ("cat", "dog")
    assert raw.columns == {"font": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("images", "labels", "word"),
    [
        ([entry(RGB), {"bytes": b"xx", "path": ""}], [0, 1], "image 2"),
        ([{"bytes": None, "path": "x.png"}], [0], "image 1 has no bytes"),
        ([None, entry(RGB)], [0, 1], "image 1 has no bytes"),
        (["a path"], [0], "image 1 has no bytes"),
        ([entry(RGB)], [2], "label 2"),
        ([entry(RGB)], [-1], "label -1"),
        ([entry(RGB), entry(RGB)], [None, 1], "whole number"),
        ([entry(RGB)], ["cat"], "whole number"),
        (pyarrow.array([], pyarrow.binary()), pyarrow.array([], pyarrow.int64()), "no image"),
    ],
)
def test_bad_parquet_content(tmp_path: Path, images: Any, labels: Any, word: str) -> None:
    path = write_parquet(tmp_path, images, labels)
    with pytest.raises(DataError) as caught:
        parquet.read(path)
    assert str(path) in str(caught.value)
    assert word in str(caught.value)


def test_damaged_parquet(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, [entry(RGB)], [0])
    whole = path.read_bytes()
    for body in (b"", whole[:40], whole[:-8], b"not parquet"):
        path.write_bytes(body)
        with pytest.raises(DataError, match=r"train\.parquet: is not a readable Parquet"):
            parquet.read(path)
    pyarrow.parquet.write_table(pyarrow.table({"picture": [1], "label": [0]}), path)
    with pytest.raises(DataError, match="no column 'image'"):
        parquet.read(path)
    with pytest.raises(DataError, match="is a folder"):
        parquet.read(tmp_path)
