"""What an image file holds: its size and mode, and a checksum of its pixels by which copies are found."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from galafed.benchmarks.base import Progress
from galafed.errors import DataError
from galafed.inspection.decoding import each, header, read_colour
from galafed.readers.listed import Listed


@dataclass(frozen=True)
class Measure:
    """Width and height in pixels, Pillow's name of the mode, and a checksum of the pixels as RGB."""

    width: int
    height: int
    mode: str
    digest: str


def measure(path: Path) -> Measure:
    """Decode one file."""
    pixels = read_colour(path)
    width, height, mode = header(path)
    # The shape belongs to the checksum: the same bytes in another shape are another image.
    digest = hashlib.blake2b(repr(pixels.shape).encode() + pixels.tobytes(), digest_size=16).hexdigest()
    return Measure(width, height, mode, digest)


def measure_all(entries: Sequence[Listed], progress: Progress) -> list[Measure | DataError]:
    """A measure of every file, or the error that says why there is none."""
    results: list[Measure | DataError] = []
    for number, result in enumerate(each([entry.path for entry in entries], measure), start=1):
        progress("reading images", number, len(entries))
        results.append(result)
    return results
