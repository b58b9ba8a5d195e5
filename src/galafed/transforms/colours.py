"""Between grey and colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from galafed.lazy import numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

LUMINANCE = (299, 587, 114)
"""Thousandths of red, green and blue, as in ITU-R 601."""


def to_gray(images: NDArray[numpy.uint8]) -> NDArray[numpy.uint8]:
    """The luminance of images [n, h, w, 3], rounded: [n, h, w]; grey images [n, h, w] as they are."""
    if images.ndim == 3:
        return images
    gray = numpy.empty(images.shape[:3], numpy.uint8)
    for start in range(0, len(images), 1000):  # sums take four times the memory of the images
        part = images[start : start + 1000].astype(numpy.uint32)
        gray[start : start + 1000] = (part @ numpy.array(LUMINANCE, numpy.uint32) + 500) // 1000
    return gray


def to_colour(images: NDArray[numpy.uint8]) -> NDArray[numpy.uint8]:
    """Grey images [n, h, w] with three equal channels: [n, h, w, 3]; colour images as they are."""
    return images if images.ndim == 4 else numpy.repeat(images[..., None], 3, axis=3)
