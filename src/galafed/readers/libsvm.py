"""USPS as libsvm text, plain or bzip2: lines `label index:value ...` with labels 1 .. 10 and values -1 .. 1."""

from __future__ import annotations

import bz2
from pathlib import Path
from typing import TYPE_CHECKING

from galafed.errors import DataError
from galafed.lazy import numpy
from galafed.readers.base import DIGITS, Raw, checked_labels, checked_pixels, existing, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIDE = 16
BZIP2_START = b"BZh"
LINE_MAX = 2**16
"""Bytes; USPS's lines have about 3000."""


def read(path: Path) -> Raw:
    """Images [n, 16, 16] with labels 0 .. 9: the file's label 1 is the digit 0."""
    labels: list[float] = []
    rows: list[NDArray[np.float64]] = []
    try:
        with existing(path).open("rb") as file:
            zipped = file.read(3) == BZIP2_START
        with bz2.open(path) if zipped else path.open("rb") as lines:
            while line := lines.readline(LINE_MAX):
                if line.strip():
                    label, row = _parsed(path, len(rows) + 1, line)
                    labels.append(label)
                    rows.append(row)
    except (OSError, EOFError) as error:
        raise DataError(f"{shown(path)}: cannot be read ({error}); fetch it again") from None
    if not rows:
        raise DataError(f"{shown(path)}: holds no image; fetch it again")
    pixels = checked_pixels(path, numpy.stack(rows), -1, 1)
    return Raw(
        images=pixels.reshape(-1, SIDE, SIDE),
        labels=checked_labels(path, numpy.array(labels) - 1, len(DIGITS)),
        classes=DIGITS,
    )


def _parsed(path: Path, number: int, line: bytes) -> tuple[float, NDArray[np.float64]]:
    """The label and the values [256] of a line; a value that is not written is zero."""
    row = numpy.zeros(SIDE * SIDE)
    try:
        label, *pairs = line.split()
        split = [pair.split(b":") for pair in pairs]
        places = numpy.array([int(index) for index, _ in split], dtype=numpy.int64)
        values = [float(value) for _, value in split]
        if len(places) and (places.min() < 1 or places.max() > row.size or (numpy.diff(places) < 1).any()):
            raise ValueError("indices must rise from 1 to 256")
        row[places - 1] = values
        return float(label), row
    except (ValueError, OverflowError) as error:
        raise DataError(f"{shown(path)}, line {number}: is not USPS in libsvm form ({error}); fetch it again") from None
