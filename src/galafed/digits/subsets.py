"""Which images of the raw files a domain has: a fixed subset, the same for everybody with the same files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from galafed.digits.domains import COUNTS, LARGE
from galafed.errors import DataError
from galafed.lazy import numpy
from galafed.runs.seeding import array_generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEST_FONTS = 7500 / 29900
"""Share of the fonts of an undivided TMNIST whose images are test images, after the sizes the paper gives."""

SHUFFLED_TRAIN = 0.8
"""Share of training images where a base is divided anew: 7438 of USPS's 9298, as in the file that FACT's code reads."""


def choose(base: str, part: str, available: int, counts: Mapping[str, int] = COUNTS) -> NDArray[numpy.int64]:
    """Rows of the raw images, in random order: `counts[part]` of them of a large base, else all."""
    order: NDArray[numpy.int64] = array_generator("digits", "subset", base, part).permutation(available)
    if base not in LARGE:
        return order
    if available < counts[part]:
        raise DataError(
            f"{base} has {available} {part} images, fewer than the {counts[part]} the benchmark takes; "
            "fetch the whole file."
        )
    return order[: counts[part]]


def divide_by_font(fonts: Sequence[object]) -> dict[str, NDArray[numpy.int64]]:
    """Rows for training and for testing, so that no font [n] is in both."""
    names, number = numpy.unique([str(font) for font in fonts], return_inverse=True)
    order = array_generator("digits", "subset", "tmnist", "fonts").permutation(len(names))
    held = numpy.zeros(len(names), numpy.bool_)
    held[order[: round(TEST_FONTS * len(names))]] = True
    return {"train": numpy.flatnonzero(~held[number]), "test": numpy.flatnonzero(held[number])}


def divide_shuffled(base: str, available: int) -> dict[str, NDArray[numpy.int64]]:
    """Rows for training and for testing, drawn from all of them."""
    order: NDArray[numpy.int64] = array_generator("digits", "subset", base, "shuffled").permutation(available)
    border = round(SHUFFLED_TRAIN * available)
    return {"train": order[:border], "test": order[border:]}


def demand_all_classes(where: str, labels: NDArray[numpy.int64], classes: int = 10) -> None:
    """Refuse images that lack a class or have one too many: every domain has all ten."""
    if len(labels) and (labels.min() < 0 or labels.max() >= classes):
        raise DataError(f"{where}: a label lies outside 0 .. {classes - 1}; correct it or fetch the files again.")
    absent = numpy.flatnonzero(numpy.bincount(labels, minlength=classes) == 0)
    if len(absent):
        names = ", ".join(str(digit) for digit in absent)
        raise DataError(f"{where}: no image of {names}; every domain has all ten digits. Fetch the files again.")
