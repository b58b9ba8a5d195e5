"""The arrays of numbers in a MATLAB 5 file (what `save` writes, also with -v7).

scipy reads these files too, but a single damaged byte can make it crash the whole process; here every length is
checked before it is believed, and a compressed array also against its checksum.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from galafed.errors import DataError
from galafed.lazy import numpy
from galafed.readers.base import existing, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEADER, TAG = 128, 8
MATRIX, COMPRESSED = 14, 15
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
NUMBERS = range(6, 16)
"""The classes of array that hold numbers; the others are text, cells, structures, sparse arrays and objects."""

COMPLEX = 0x800
"""The flag of an array with a second, imaginary part."""

CHUNK = 2**20


class _Damaged(Exception):
    """Why the file cannot be what it says."""


def read(path: Path, wanted: Collection[str]) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """The wanted arrays by name, and the names of all arrays of numbers in the file."""
    found: dict[str, NDArray[Any]] = {}
    names: list[str] = []
    try:
        with existing(path).open("rb") as file:
            order = _order(file.read(HEADER))
            while tag := file.read(TAG):
                if len(tag) < TAG:
                    raise _Damaged("it is truncated")
                kind, size = struct.unpack(f"{order}2I", tag)
                end = file.tell() + size
                if end > path.stat().st_size:
                    raise _Damaged("it is truncated")
                if kind in (MATRIX, COMPRESSED):
                    name, array = _matrix(file, kind, size, order, wanted)
                    names.append(name)
                    if array is not None:
                        found[name] = array
                file.seek(end)
    except (_Damaged, OSError, zlib.error) as error:
        raise DataError(f"{shown(path)}: is not a readable MATLAB file ({error}); fetch it again") from None
    return found, tuple(name for name in names if name)


def _order(header: bytes) -> str:
    """The byte order, `<` or `>`, of a file with this header."""
    order = {b"IM": "<", b"MI": ">"}.get(header[126:])
    if order is None:
        raise _Damaged("it is truncated or of another format")
    version = struct.unpack(f"{order}H", header[124:126])[0]
    if version == 0x200:
        raise _Damaged("it is of version 7.3, unlike the published one: save it with -v7")
    if version != 0x100:
        raise _Damaged(f"it claims the unknown version {version:#x}")
    return order


def _matrix(
    file: IO[bytes], kind: int, size: int, order: str, wanted: Collection[str]
) -> tuple[str, NDArray[Any] | None]:
    """The name of an array of numbers ("" for anything else) and, if it is wanted, the array."""
    stream: _Part
    if kind == COMPRESSED:
        inflated = _Inflated(file, size)
        inner, size = struct.unpack(f"{order}2I", inflated.take(TAG))
        if inner != MATRIX:
            return "", None
        stream = _Part(inflated.take, size, order)
    else:
        stream = _Part(file.read, size, order)
    flags = stream.element()[1]
    if len(flags) != 8:
        raise _Damaged("the flags of an array in it are wrong")
    (flag,) = struct.unpack(f"{order}I", flags[:4])
    if flag % 256 not in NUMBERS or flag & COMPLEX:
        return "", None
    lengths = stream.numbers()
    name = stream.element()[1].decode("latin-1")
    if name not in wanted:
        return name, None
    values = stream.numbers()
    if kind == COMPRESSED:
        inflated.finish()
    try:
        if (lengths < 0).any():  # reshape would compute one for itself
            raise ValueError
        return name, values.reshape(tuple(lengths), order="F")
    except (ValueError, TypeError, OverflowError):
        raise _Damaged(f"{name} has {len(values)} values, but its shape is {lengths.tolist()}") from None


class _Part:
    """A run of `left` bytes, made of elements: a tag with a type and a length, the content, and padding to 8 bytes."""

    def __init__(self, take: Callable[[int], bytes | bytearray], left: int, order: str) -> None:
        self._take = take
        self._left = left
        self._order = order

    def next_bytes(self, count: int) -> bytes | bytearray:
        if count > self._left:
            raise _Damaged("a length in it is wrong")
        self._left -= count
        content = self._take(count)
        if len(content) < count:
            raise _Damaged("it is truncated")
        return content

    def element(self) -> tuple[int, bytes | bytearray]:
        """The type and the content of the next element."""
        (kind,) = struct.unpack(f"{self._order}I", self.next_bytes(4))
        if kind >> 16:  # up to four bytes are stored in the tag itself, their number before the type
            if kind >> 16 > 4:
                raise _Damaged("a length in it is wrong")
            return kind & 0xFFFF, self.next_bytes(4)[: kind >> 16]
        (size,) = struct.unpack(f"{self._order}I", self.next_bytes(4))
        content = self.next_bytes(size)
        self.next_bytes(min(-size % 8, self._left))
        return kind, content

    def numbers(self) -> NDArray[Any]:
        """The content of the next element as numbers [n]."""
        kind, content = self.element()
        if kind not in STORED:
            raise _Damaged(f"it has numbers of the unknown type {kind}")
        stored = numpy.dtype(self._order + STORED[kind])
        if len(content) % stored.itemsize:
            raise _Damaged("a length in it is wrong")
        values: NDArray[Any] = numpy.frombuffer(content, stored)
        return values.astype(stored.newbyteorder("="), copy=False)


class _Inflated:
    """The content of `size` compressed bytes of a file."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size
        self._inflate = zlib.decompressobj()

    def take(self, count: int) -> bytearray:
        """The next bytes; grown piece by piece, so that a false count costs no memory."""
        content = bytearray()
        while len(content) < count:
            if self._inflate.eof:
                raise _Damaged("it is truncated")
            content += self._step(min(CHUNK, count - len(content)))
        return content

    def finish(self) -> None:
        """Go to the end, where the checksum is."""
        while not self._inflate.eof:
            self._step(CHUNK)

    def _step(self, most: int) -> bytes:
        """Some of the next bytes, at most so many; none only if more has to be read first."""
        waiting = self._inflate.unconsumed_tail
        if not waiting:
            waiting = self._file.read(min(CHUNK, self._left))
            self._left -= len(waiting)
        content = self._inflate.decompress(waiting, most)
        if not content and not waiting and not self._inflate.eof:
            raise _Damaged("it is truncated")
        return content
