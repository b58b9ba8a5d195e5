"""Digits over photographs, by the rule of MNIST-M."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from galafed.lazy import numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray


def over_photographs(
    digits: NDArray[numpy.uint8],
    photographs: Sequence[NDArray[numpy.uint8]],
    rng: numpy.random.Generator,
    threshold: int = 128,
) -> NDArray[numpy.uint8]:
    """Digits [n, h, w] inverted into a random crop each of a random photograph [H, W, 3]: [n, h, w, 3]."""
    return invert_under(digits >= threshold, draw_crops(photographs, digits.shape, rng))


def invert_under(mask: NDArray[numpy.bool_], crops: NDArray[numpy.uint8]) -> NDArray[numpy.uint8]:
    """255 - crop where the mask [n, h, w] is on, else the crop [n, h, w, 3] itself.

    The mask is binary on purpose: blending half-tone edges draws dark outlines that give the digit away.
    """
    return numpy.where(mask[..., None], 255 - crops, crops)


def draw_crops(
    photographs: Sequence[NDArray[numpy.uint8]], shape: tuple[int, ...], rng: numpy.random.Generator
) -> NDArray[numpy.uint8]:
    """For shape (n, h, w), crops [n, h, w, 3], each from a random place of a random photograph [H, W, 3]."""
    count, height, width = shape
    if not photographs:
        raise ValueError("no photograph to crop from")
    for photograph in photographs:
        if photograph.shape[0] < height or photograph.shape[1] < width:
            raise ValueError(f"photograph {photograph.shape[:2]} is smaller than the image {(height, width)}")
    chosen = rng.integers(len(photographs), size=count)
    # One draw an image whatever its photograph, so that a photograph more or less leaves the places alone.
    across, down = rng.random(count), rng.random(count)
    crops = numpy.empty((count, height, width, 3), numpy.uint8)
    for number, photograph in enumerate(photographs):
        mine = chosen == number
        windows = numpy.lib.stride_tricks.sliding_window_view(photograph, (height, width), axis=(0, 1))
        tops = (down[mine] * windows.shape[0]).astype(numpy.int64)
        lefts = (across[mine] * windows.shape[1]).astype(numpy.int64)
        crops[mine] = windows[tops, lefts].transpose(0, 2, 3, 1)
    return crops
