"""What every reader returns, and the checks they share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from galafed.errors import DataError
from galafed.lazy import numpy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIGITS = tuple("0123456789")
"""The classes of every digit domain."""


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Images as published, uint8 [h, w] or [h, w, 3], one array where all have one size; labels int64 [n]."""

    images: Sequence[NDArray[np.uint8]] | NDArray[np.uint8]
    labels: NDArray[np.int64]
    classes: tuple[str, ...] = ()
    """The names of the classes, where the file tells them."""
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Other columns of a table, for example the font of a glyph."""

    def __len__(self) -> int:
        return len(self.labels)


def shown(path: Path) -> str:
    """The path for a message; a name that is not valid text would break the message itself."""
    return str(path).encode("utf-8", "replace").decode()


def existing(path: Path) -> Path:
    """The path, if it is a file that can be there to read."""
    # The functions of os.path, unlike the path's own, answer no for a name that is too long or has a zero byte.
    if not os.path.isfile(path):
        kind = "is a folder, not a file" if os.path.isdir(path) else "does not exist"
        raise DataError(f"{shown(path)}: {kind}; check the path, or fetch the file")
    return path


def checked_labels(path: Path, values: Any, classes: int) -> NDArray[np.int64]:
    """Class numbers int64 [n] from any array of whole numbers in 0 .. classes - 1."""
    found = numpy.asarray(values).reshape(-1)
    if found.dtype.kind not in "iufb":
        raise DataError(f"{shown(path)}: its labels are not numbers; fetch the file again")
    # Compared before the cast: casting a NaN or 1e30 to an integer gives an arbitrary one.
    wrong = ~((found >= 0) & (found < classes) & (found == numpy.floor(found)))
    if wrong.any():
        first = int(wrong.argmax())
        raise DataError(
            f"{shown(path)}: image {first + 1} has the label {found[first]}, not a class of 0 .. {classes - 1}; "
            "correct the label or fetch the file again"
        )
    return found.astype(numpy.int64)


def checked_pixels(path: Path, values: Any, low: float, high: float) -> NDArray[np.uint8]:
    """Numbers in low .. high as the nearest grey levels uint8 0 .. 255, the shape kept."""
    found = numpy.asarray(values)
    if found.dtype == numpy.uint8 and (low, high) == (0, 255):
        return found
    if found.dtype.kind not in "iufb":
        raise DataError(f"{shown(path)}: its pixels are not numbers; fetch the file again")
    slack = 1e-6 * (high - low)
    if found.size and not (found.min() >= low - slack and found.max() <= high + slack):  # false for a NaN as well
        raise DataError(
            f"{shown(path)}: pixels between {found.min():g} and {found.max():g}, expected {low:g} to {high:g}; "
            "fetch the file again"
        )
    scaled = (found.astype(numpy.float32) - low) * (255 / (high - low))
    levels: NDArray[np.uint8] = numpy.rint(scaled).clip(0, 255).astype(numpy.uint8)
    return levels


def same_count(images: Path, labels: Path, how_many_images: int, how_many_labels: int) -> None:
    """Refuse files that do not belong together, or that hold nothing."""
    if how_many_images != how_many_labels and images == labels:
        raise DataError(
            f"{shown(images)}: has {how_many_images} images but {how_many_labels} labels; fetch the file again"
        )
    if how_many_images != how_many_labels:
        raise DataError(
            f"{shown(images)} has {how_many_images} images but {shown(labels)} has {how_many_labels} labels; "
            "they do not belong together: fetch both again"
        )
    if how_many_images == 0:
        raise DataError(f"{shown(images)}: holds no image; fetch the file again")


def gathered(images: Iterable[NDArray[np.uint8]], count: int) -> list[NDArray[np.uint8]] | NDArray[np.uint8]:
    """`count` images in one array [count, ...] if all have one shape, else as a list; never held twice."""
    stack: NDArray[np.uint8] | None = None
    loose: list[NDArray[np.uint8]] = []
    for number, image in enumerate(images):
        if number == 0:
            stack = numpy.empty((count, *image.shape), numpy.uint8)
        if stack is not None and image.shape != stack.shape[1:]:
            loose, stack = [one.copy() for one in stack[:number]], None
        if stack is None:
            loose.append(image)
        else:
            stack[number] = image
    return loose if stack is None else stack
