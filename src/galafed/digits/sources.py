"""Where the raw files of each base are: the published ones, a Parquet copy, or what stands in for them."""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from galafed.digits.domains import DERIVED, REGENERATED, STAND_IN
from galafed.downloads import find, where_to_get
from galafed.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from galafed.readers.base import Raw

PARTS = ("train", "test")


@dataclass(frozen=True)
class Layout:
    """Files in the folder of a base and the reader for them, given one file for each of its arguments."""

    reader: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    told: bool = False
    """One file holds both parts, and the reader is told which one to take."""

    @property
    def undivided(self) -> bool:
        """One file that does not say which images are for training."""
        return self.train == self.test and not self.told


PARQUET = Layout("parquet", ("train.parquet",), ("test.parquet",))


def _named(reader: str, pattern: str, labels: str, parts: tuple[str, str] = PARTS) -> Layout:
    """Images in one file (or folder) a part and labels in another."""
    train, test = ((pattern.format(part), labels.format(part)) for part in parts)
    return Layout(reader, train, test)


def _idx(folder: str, ending: str) -> Layout:
    return _named(
        "idx", f"{folder}{{}}-images-idx3-ubyte{ending}", f"{folder}{{}}-labels-idx1-ubyte{ending}", ("train", "t10k")
    )


def _labelled(folder: str) -> Layout:
    return _named("labelled_folder", f"{folder}mnist_m_{{}}", f"{folder}mnist_m_{{}}_labels.txt")


def _ardis(folder: str) -> Layout:
    return _named("csv_pixels", f"{folder}ARDIS_{{}}_2828.csv", f"{folder}ARDIS_{{}}_labels.csv")


LAYOUTS: Mapping[str, tuple[Layout, ...]] = {
    "mnist": (_idx("", ".gz"), _idx("", ""), _idx("raw/", ".gz"), _idx("raw/", ""), PARQUET),
    "mnistm": (_labelled(""), _labelled("mnist_m/"), PARQUET),
    "svhn": (Layout("matlab", ("train_32x32.mat",), ("test_32x32.mat",)), PARQUET),
    "syn": (
        Layout("matlab", ("synth_train_32x32.mat",), ("synth_test_32x32.mat",)),
        Layout("matlab", ("syn_number.mat",), ("syn_number.mat",), told=True),
        PARQUET,
    ),
    "usps": (
        Layout("libsvm", ("usps.bz2",), ("usps.t.bz2",)),
        Layout("libsvm", ("usps",), ("usps.t",)),
        Layout("hdf5", ("usps.h5",), ("usps.h5",), told=True),
        PARQUET,
    ),
    "ardis": (_ardis(""), _ardis("ARDIS_DATASET_IV/"), PARQUET),
    "ardis2": (PARQUET,),
    "tmnist": (Layout("csv_pixels", ("TMNIST_Data.csv",), ("TMNIST_Data.csv",)), PARQUET),
    "fontdigits": (PARQUET,),
    "glyphs": (PARQUET,),
    "photos": (
        Layout("folder", ("BSR/BSDS500/data/images/train",), ("BSR/BSDS500/data/images/test",)),
        Layout("folder", ("train",), ("test",)),
        PARQUET,
    ),
}
"""Of each base, in the order in which they are looked for; the published form comes first."""

NOT_PUBLISHED: Mapping[str, str] = {
    "glyphs": "glyphs/train.parquet and glyphs/test.parquet hold digit masks (columns image, label and font; ten rows "
    "a font, one a digit); they can be rendered from any collection of fonts.",
}


@dataclass(frozen=True)
class Found:
    """The files of a base, and the layout they have."""

    base: str
    layout: Layout
    train: tuple[Path, ...]
    test: tuple[Path, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """All files, each once."""
        return tuple(dict.fromkeys((*self.train, *self.test)))

    def of(self, part: str) -> tuple[Path, ...]:
        """The files of "train" or "test"."""
        return self.train if part == "train" else self.test

    def read(self, part: str) -> Raw:
        """The images of "train" or "test" as published."""
        module = importlib.import_module(f"galafed.readers.{self.layout.reader}")
        arguments: dict[str, Any] = {"split": part} if self.layout.told else {}
        raw: Raw = module.read(*self.of(part), **arguments)
        return raw


def look_up(base: str) -> Found | None:
    """The raw files of a base, of the first layout that is complete; an error if only a part of one is there."""
    folder = find(base)
    if folder is None:
        return None
    lacking: dict[str, list[str]] = {}
    for layout in LAYOUTS[base]:
        names = dict.fromkeys((*layout.train, *layout.test))
        present = [name for name in names if (folder / name).exists()]
        if len(present) == len(names):
            train, test = (tuple(folder / name for name in part) for part in (layout.train, layout.test))
            return Found(base, layout, train, test)
        if present:
            lacking[present[0]] = [name for name in names if name not in present]
    if lacking:
        there, absent = next(iter(lacking.items()))
        raise DataError(f"{folder}: has {there} but not {', '.join(absent)}; add what is missing or remove {there}.")
    return None


def demand(base: str) -> Found:
    """The raw files of a base; without them an error that says what to get and where to put it."""
    found = look_up(base)
    if found is None:
        remedy = NOT_PUBLISHED[base] if base in NOT_PUBLISHED else where_to_get(base)
        raise DataError(f"the files of {base} are missing. {remedy} GALAFED_DATA names the folder that holds {base}/.")
    return found


@dataclass(frozen=True)
class Origin:
    """What a domain is made from, and what must be said of it wherever it is shown."""

    found: tuple[Found, ...]
    note: str = ""

    def files(self) -> list[dict[str, Any]]:
        """Name, size and checksum of every raw file."""
        return [_described(path) for path in dict.fromkeys(path for found in self.found for path in found.files)]


def origin(domain: str) -> Origin:
    """What a domain is made from with the files at hand; raises `DataError` if they do not suffice."""
    if domain in DERIVED:
        base, dress = DERIVED[domain]
        below = origin(base)
        return Origin((*below.found, demand("photos")), below.note) if dress == "photo" else below
    published = look_up(domain)
    if published is not None:
        return Origin((published,))
    if domain == "ardis2":
        return Origin(origin("ardis").found, STAND_IN)
    if domain == "tmnist" and (fonts := look_up("fontdigits")):
        return Origin((fonts,), STAND_IN)
    if domain == "syn" and (glyphs := look_up("glyphs")) and (photos := look_up("photos")):
        return Origin((glyphs, photos), REGENERATED)
    raise _missing(domain)


def _missing(domain: str) -> DataError:
    try:
        demand(domain)
    except DataError as error:
        if domain != "syn":
            return error
        return DataError(f"{error} Without them syn is regenerated from glyphs/ and photos/, which are missing too.")
    raise AssertionError(f"{domain} is not missing")


def photographs(found: Found, part: str, least: int = 32) -> Sequence[NDArray[np.uint8]]:
    """The photographs of a part, [H, W, 3] each, none smaller than the crops taken from it."""
    from galafed.readers import pictures
    from galafed.transforms.colours import to_colour

    (place,) = found.of(part)
    if found.layout.reader == "folder":
        paths = sorted(path for path in place.iterdir() if path.suffix.lower() in pictures.SUFFIXES)
        images = [to_colour(pictures.read(path)[None])[0] for path in paths]
    else:
        images = [to_colour(image[None])[0] for image in found.read(part).images]
    if not images:
        raise DataError(f"{place}: holds no photograph. {where_to_get('photos')}")
    small = min(min(image.shape[:2]) for image in images)
    if small < least:
        raise DataError(f"{place}: a photograph has a side of {small} pixels; replace it by one of {least} or more.")
    return images


def _described(path: Path) -> dict[str, Any]:
    name = f"{path.parent.name}/{path.name}"
    try:
        status = path.stat()
        if path.is_dir():
            return {"file": name, **_folder_digest(path)}
        return {"file": name, "bytes": status.st_size, "sha256": _digest(path, status.st_size, status.st_mtime_ns)}
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); change its permissions or fetch it again"
        ) from None


@functools.lru_cache(maxsize=256)
def _digest(path: Path, size: int, changed: int) -> str:
    """The checksum of a file, computed once as long as its size and time stay the same."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder_digest(folder: Path) -> dict[str, Any]:
    """For a folder of thousands of pictures: their names, sizes and times stand for their contents."""
    digest, total = hashlib.sha256(), 0
    for path in sorted(folder.iterdir()):
        status = path.stat()
        digest.update(f"{path.name}\x1f{status.st_size}\x1f{status.st_mtime_ns}\x1e".encode(errors="surrogateescape"))
        total += status.st_size
    return {"bytes": total, "sha256": digest.hexdigest()}
