"""Images made smaller, on a black canvas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from galafed.lazy import numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray


def shrink_on_black(images: NDArray[numpy.uint8], size: int, canvas: int) -> NDArray[numpy.uint8]:
    """Images [n, h, w] or [n, h, w, 3] resized to `size` and centred on black: [n, canvas, canvas(, 3)]."""
    if not 0 < size <= canvas:
        raise ValueError(f"size {size} does not lie between 1 and the canvas, {canvas}")
    margin = (canvas - size) // 2
    inside = slice(margin, margin + size)
    result = numpy.zeros((len(images), canvas, canvas, *images.shape[3:]), numpy.uint8)
    result[:, inside, inside] = resize(images, size)
    return result


def resize(images: NDArray[numpy.uint8], size: int) -> NDArray[numpy.uint8]:
    """Images [n, h, w] or [n, h, w, 3] resized bilinearly, averaging if they shrink: [n, size, size(, 3)]."""
    from PIL import Image

    result = numpy.empty((len(images), size, size, *images.shape[3:]), numpy.uint8)
    for number, image in enumerate(images):
        result[number] = numpy.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.BILINEAR))
    return result
