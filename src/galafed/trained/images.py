"""Pictures to predict, however they are given: files, folders, arrays, Pillow images; decoded a batch at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from galafed.errors import DataError
from galafed.inspection.decoding import each, read_square
from galafed.readers.base import existing, shown
from galafed.readers.pictures import SUFFIXES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Pictures = Any
"""A path, a folder, an array uint8 [n, h, w, 3] or [h, w, 3], a Pillow image, or a list of these."""

Batch = tuple[list[str], "NDArray[np.uint8]"]


def squares(pictures: Any, size: int, batch: int) -> Iterator[Batch]:
    """Names and images uint8 [n, size, size, 3], at most `batch` at a time."""
    paths: list[Path] = []
    memory: list[tuple[str, Any]] = []
    for number, picture in enumerate(_listed(pictures)):
        if isinstance(picture, str | Path):
            paths.extend(files(Path(picture)))
        else:
            memory.append((f"image {number}", picture))
    for start in range(0, len(paths), batch):
        chosen = paths[start : start + batch]
        decoded = []
        for image in each(chosen, lambda path: read_square(path, size)):
            if isinstance(image, DataError):
                raise image
            decoded.append(image)
        yield [shown(path) for path in chosen], numpy.stack(decoded)
    for start in range(0, len(memory), batch):
        few = memory[start : start + batch]
        yield [name for name, _ in few], numpy.stack([_square(image, name, size) for name, image in few])
    if not paths and not memory:
        raise DataError("no picture was given; name at least one file or folder")


def files(path: Path) -> list[Path]:
    """A file itself, or every picture in a folder and the folders in it, in order of name."""
    if not os.path.isdir(path):
        return [existing(path)]
    found = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    if not found:
        raise DataError(f"{shown(path)}: holds no picture ({', '.join(sorted(SUFFIXES))}); name another folder")
    return found


def _listed(pictures: Any) -> Iterable[Any]:
    """One picture, or several, as a sequence; an array [n, h, w, 3] is n pictures."""
    single = isinstance(pictures, str | Path) or hasattr(pictures, "convert")
    if single or (isinstance(pictures, numpy.ndarray) and pictures.ndim < 4):
        return [pictures]
    return pictures  # type: ignore[no-any-return]


def _square(picture: Any, name: str, size: int) -> NDArray[np.uint8]:
    """An array or a Pillow image as uint8 [size, size, 3]."""
    from PIL import Image

    if hasattr(picture, "convert"):
        picture = numpy.asarray(picture.convert("RGB"))
    array = numpy.asarray(picture)
    if array.ndim == 2:
        array = numpy.repeat(array[..., None], 3, axis=2)
    if array.dtype != numpy.uint8 or array.ndim != 3 or array.shape[2] != 3 or not array.size:
        raise DataError(
            f"{name}: has shape {list(array.shape)} and numbers of kind {array.dtype}; give whole numbers 0 to 255 "
            "(uint8) of shape [height, width, 3] or [height, width]"
        )
    if array.shape[:2] == (size, size):
        return array
    return numpy.asarray(Image.fromarray(array).resize((size, size), Image.Resampling.BILINEAR))
