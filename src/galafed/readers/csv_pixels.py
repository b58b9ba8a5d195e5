"""Pixels as text: ARDIS (a file of pixel rows and a file of labels) and TMNIST (columns names, labels, 1 .. 784)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from galafed.errors import DataError
from galafed.lazy import numpy
from galafed.readers.base import DIGITS, Raw, checked_labels, checked_pixels, existing, same_count, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def read(pixels: Path, labels: Path | None = None) -> Raw:
    """Images [n, h, w], h = w, with labels 0 .. 9: from two files as ARDIS has them, or from one as TMNIST has it."""
    return _table(pixels) if labels is None else _two_files(pixels, labels)


def _two_files(pixels: Path, labels: Path) -> Raw:
    rows, marks = _numbers(pixels), _numbers(labels)
    same_count(pixels, labels, len(rows), len(marks))
    side = _side(pixels, rows.shape[1])
    return Raw(
        images=checked_pixels(pixels, rows, 0, 255).reshape(-1, side, side),
        labels=checked_labels(labels, _from_one_hot(labels, marks), len(DIGITS)),
        classes=DIGITS,
    )


def _numbers(path: Path) -> NDArray[np.float32]:
    """The numbers [rows, columns] of a text file, separated by commas or, as ARDIS publishes them, by blanks."""
    try:
        with existing(path).open(encoding="utf-8-sig") as file:
            start = file.readline(2**20)
            if not start.strip():
                raise DataError(f"{shown(path)}: is empty or starts with an empty line; fetch it again")
            file.seek(0)
            return numpy.loadtxt(
                file, dtype=numpy.float32, delimiter="," if "," in start else None, comments=None, ndmin=2
            )
    except UnicodeDecodeError:
        raise DataError(f"{shown(path)}: is not text; give the CSV file as published") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{shown(path)}: is not a table of numbers ({error}); fetch it again") from None


def _from_one_hot(path: Path, marks: NDArray[np.float32]) -> Any:
    """Labels [n] from [n, 1], or from rows [n, 10] with a single 1."""
    if marks.shape[1] == 1:
        return marks[:, 0]
    if marks.shape[1] != len(DIGITS):
        raise DataError(f"{shown(path)}: has {marks.shape[1]} columns, expected 1 or {len(DIGITS)}; fetch it again")
    wrong = ~(((marks == 0) | (marks == 1)).all(axis=1) & (marks.sum(axis=1) == 1))
    if wrong.any():
        raise DataError(f"{shown(path)}, line {int(wrong.argmax()) + 1}: must have a single 1; fetch it again")
    return numpy.argmax(marks, axis=1)


def _table(path: Path) -> Raw:
    """TMNIST: a header, then the name of the font, the label and the pixels of an image in each line."""
    import pyarrow

    table = _parsed(path)
    columns = [name for name in table.column_names if name not in ("names", "labels")]
    side = _side(path, len(columns))
    if table.num_rows == 0:
        raise DataError(f"{shown(path)}: holds no image; fetch it again")
    pixels = numpy.empty((table.num_rows, len(columns)), numpy.uint8)
    for place, name in enumerate(columns):
        column = table.column(name)
        if column.type != pyarrow.uint8() or column.null_count:
            raise DataError(f"{shown(path)}: column {name!r} must hold a number 0 .. 255 in every row; fetch it again")
        pixels[:, place] = column.to_numpy()
    if table.column("labels").null_count:
        raise DataError(f"{shown(path)}: an image has no label; fetch it again")
    return Raw(
        images=pixels.reshape(-1, side, side),
        labels=checked_labels(path, table.column("labels").to_numpy(), len(DIGITS)),
        classes=DIGITS,
        columns={"font": table.column("names").to_pylist()},
    )


def _parsed(path: Path) -> Any:
    """The table, its pixels as uint8: a number that does not fit is an error of the parser."""
    import pyarrow
    from pyarrow import csv

    try:
        with existing(path).open(encoding="utf-8-sig") as file:
            header = [name.strip().strip('"') for name in file.readline(2**20).split(",")]
        missing = [name for name in ("names", "labels") if name not in header]
        if missing:
            raise DataError(
                f"{shown(path)}: has no column {missing[0]!r}; its first line must be names,labels,1,2, ... ,784"
            )
        if len(set(header)) != len(header):
            raise DataError(f"{shown(path)}: two columns have one name; fetch it again")
        types = dict.fromkeys(header, pyarrow.uint8()) | {"names": pyarrow.string(), "labels": pyarrow.int64()}
        read_options = csv.ReadOptions(column_names=header, skip_rows=1)
        return csv.read_csv(path, read_options, convert_options=csv.ConvertOptions(column_types=types))
    except UnicodeDecodeError:
        raise DataError(f"{shown(path)}: is not text; give the CSV file as published") from None
    except (OSError, pyarrow.ArrowException, ValueError) as error:
        why = str(error).splitlines()[0][:200]
        raise DataError(f"{shown(path)}: is not a table of pixels ({why}); fetch it again") from None


def _side(path: Path, pixels: int) -> int:
    side = math.isqrt(pixels)
    if side * side != pixels or side == 0:
        raise DataError(f"{shown(path)}: {pixels} pixels a row are not a square image; fetch it again")
    return side
