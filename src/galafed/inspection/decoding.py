"""Many image files at once: several threads decode, the results come back in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from galafed.errors import DataError
from galafed.lazy import numpy
from galafed.readers import pictures
from galafed.readers.base import existing, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

THREADS = min(4, os.cpu_count() or 1)
AHEAD = 64
"""Files in work at a time, so that a large folder is never in memory whole."""


def each(paths: Sequence[Path], read: Callable[[Path], T]) -> Iterator[T | DataError]:
    """What `read` makes of each file, in order; for a bad file the error that says why."""

    def safely(path: Path) -> T | DataError:
        try:
            return read(path)
        except DataError as error:
            return error

    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(paths), AHEAD):
            yield from pool.map(safely, paths[start : start + AHEAD])


def header(path: Path) -> tuple[int, int, str]:
    """Width, height and mode of an image, without decoding it."""
    from PIL import Image

    existing(path)  # opening a pipe would wait for ever
    try:
        with Image.open(path, formats=pictures.FORMATS) as picture:
            return picture.width, picture.height, picture.mode
    except Exception as error:  # damaged files make Pillow raise nearly anything
        raise DataError(f"{shown(path)}: is damaged ({error}); replace or remove it") from None


def read_colour(path: Path) -> NDArray[numpy.uint8]:
    """An image as [h, w, 3]; grey ones three times the same."""
    pixels = pictures.read(path)
    return pixels if pixels.ndim == 3 else numpy.repeat(pixels[..., None], 3, axis=2)


def read_square(path: Path, size: int) -> NDArray[numpy.uint8]:
    """An image stretched to [size, size, 3], averaging where it shrinks."""
    from PIL import Image

    picture = Image.fromarray(read_colour(path))
    return numpy.asarray(picture.resize((size, size), Image.Resampling.BILINEAR))
