"""MNIST's idx files, plain or gzipped: a magic number, the sizes as big-endian 32-bit numbers, then the bytes."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from galafed.errors import DataError
from galafed.lazy import numpy
from galafed.readers.base import DIGITS, Raw, checked_labels, existing, same_count, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

IMAGES_MAGIC = 0x803  # unsigned bytes, three axes
LABELS_MAGIC = 0x801  # unsigned bytes, one axis
GZIP_START = b"\x1f\x8b"
BYTES_MAX = 2**31
"""More than any published file; a damaged header may claim anything."""

CHUNK = 2**20


def read(images: Path, labels: Path) -> Raw:
    """Images [n, h, w] of one file with the labels 0 .. 9 of the other."""
    pixels = _array(images, IMAGES_MAGIC, "images")
    numbers = _array(labels, LABELS_MAGIC, "labels")
    same_count(images, labels, len(pixels), len(numbers))
    return Raw(images=pixels, labels=checked_labels(labels, numbers, len(DIGITS)), classes=DIGITS)


def _array(path: Path, magic: int, what: str) -> NDArray[np.uint8]:
    """The array of an idx file; everything in the file must be accounted for."""
    try:
        with existing(path).open("rb") as file:
            zipped = file.read(2) == GZIP_START  # by content: browsers unzip some downloads and keep the name
        with gzip.open(path) if zipped else path.open("rb") as content:
            _, *shape = _header(path, content, magic, what)
            size = 1
            for length in shape:
                size *= length
            if size > BYTES_MAX:
                raise DataError(f"{shown(path)}: claims {size} bytes, its header is damaged; fetch it again")
            data = _exactly(content, size + 1)  # one more: to see whether the file goes on, and to check its checksum
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"{shown(path)}: cannot be read ({error}); fetch it again") from None
    if len(data) != size:
        state = "is truncated" if len(data) < size else "goes on after its last image or label"
        raise DataError(f"{shown(path)}: {state}; fetch it again")
    return numpy.frombuffer(data, numpy.uint8).reshape(shape)


def _header(path: Path, content: io.BufferedIOBase, magic: int, what: str) -> tuple[int, ...]:
    """The magic number and the sizes."""
    fields = 1 + magic % 256
    start = content.read(4 * fields)
    numbers = struct.unpack(f">{len(start) // 4}I", start[: len(start) // 4 * 4])
    if not numbers or numbers[0] != magic:
        got = f"{numbers[0]:#010x}" if numbers else "nothing"
        raise DataError(
            f"{shown(path)}: is not an idx file of {what} (it starts with {got}, not {magic:#010x}); "
            "give the right file or fetch it again"
        )
    if len(numbers) < fields:
        raise DataError(f"{shown(path)}: is truncated; fetch it again")
    if len(numbers) > 2 and 0 in numbers[2:]:
        raise DataError(f"{shown(path)}: claims images without pixels, its header is damaged; fetch it again")
    return numbers


def _exactly(content: io.BufferedIOBase, size: int) -> bytearray:
    """Up to `size` bytes; read in pieces, so that a false size costs no memory."""
    data = bytearray()
    while len(data) < size and (piece := content.read(min(CHUNK, size - len(data)))):
        data += piece
    return data
