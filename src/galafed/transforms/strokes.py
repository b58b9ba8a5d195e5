"""Which pixels of a colour scene are digits: a binary mask by a threshold that leans with the light."""

from __future__ import annotations

from typing import TYPE_CHECKING

from galafed.lazy import numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[numpy.float64]

BUNCH = 500
"""Images treated together, which bounds the memory."""
LEVELS = 64
FOCUS = 0.25
"""Deviation of the weight of a pixel, in widths of the frame: the digit is in the middle, other things are not."""
PASSES = 3


def stroke_mask(images: NDArray[numpy.uint8]) -> NDArray[numpy.bool_]:
    """Strokes of scenes [n, h, w, 3]: [n, h, w], on where a pixel is not like the rim of the frame.

    Each image is seen along the colour in which it varies most and cut in two by Otsu's threshold, the middle counting
    most; light that falls off to one side is fitted as a plane, taken away, and the threshold sought again.
    """
    mask = numpy.empty(images.shape[:3], numpy.bool_)
    for start in range(0, len(images), BUNCH):
        mask[start : start + BUNCH] = _mask(images[start : start + BUNCH])
    return mask


def _mask(images: NDArray[numpy.uint8]) -> NDArray[numpy.bool_]:
    count, height, width = images.shape[:3]
    rows = (numpy.arange(height) - (height - 1) / 2)[:, None] / height
    columns = (numpy.arange(width) - (width - 1) / 2) / width
    weight = numpy.exp(-(rows**2 + columns**2) / (2 * FOCUS**2)).ravel()
    slopes = numpy.stack(numpy.broadcast_arrays(rows, columns), axis=2).reshape(-1, 2)
    shade = _principal(images.reshape(count, -1, 3).astype(numpy.float64), weight)
    on = _otsu(shade, weight)
    for _ in range(PASSES):
        on = _otsu(shade - _light(shade, on, slopes, weight), weight)
    on = on.reshape(count, height, width)
    rim = numpy.concatenate([on[:, 0], on[:, -1], on[:, 1:-1, 0], on[:, 1:-1, -1]], axis=1)
    mask: NDArray[numpy.bool_] = on ^ (rim.mean(axis=1) > 0.5)[:, None, None]
    return mask


def _principal(pixels: Array, weight: Array) -> Array:
    """Pixels [n, p, 3] along the direction of their greatest weighted variance: [n, p]."""
    centred = pixels - (pixels * weight[:, None]).sum(axis=1, keepdims=True) / weight.sum()
    spread = numpy.swapaxes(centred * weight[:, None], 1, 2) @ centred
    direction = numpy.linalg.eigh(spread).eigenvectors[:, :, -1:]
    result: Array = (centred @ direction)[..., 0]
    return result


def _otsu(shade: Array, weight: Array) -> NDArray[numpy.bool_]:
    """Shades [n, p] above the level that separates two weighted classes best: the greatest variance between them."""
    count = len(shade)
    low, high = shade.min(axis=1, keepdims=True), shade.max(axis=1, keepdims=True)
    level = ((shade - low) / numpy.maximum(high - low, 1e-9) * (LEVELS - 1e-6)).astype(numpy.int64)
    place = (level + LEVELS * numpy.arange(count)[:, None]).ravel()
    histogram = numpy.bincount(place, numpy.tile(weight, count), LEVELS * count).reshape(count, LEVELS)
    below = histogram.cumsum(axis=1)
    moment = (histogram * numpy.arange(LEVELS)).cumsum(axis=1)
    whole, sum_ = below[:, -1:], moment[:, -1:]
    room = below * (whole - below)
    between = (sum_ * below - whole * moment) ** 2 / numpy.where(room > 1e-9, room, numpy.inf)
    result: NDArray[numpy.bool_] = level > between.argmax(axis=1)[:, None]
    return result


def _light(shade: Array, on: NDArray[numpy.bool_], slopes: Array, weight: Array) -> Array:
    """The plane in shade = a + b on + slopes k, fitted with weights: [n, p]."""
    count, pixels = shade.shape
    terms = numpy.empty((count, pixels, 4))
    terms[..., 0], terms[..., 1], terms[..., 2:] = 1, on, slopes
    weighted = numpy.swapaxes(terms * weight[:, None], 1, 2)
    # A little on the diagonal keeps an image of one colour, which has one class only, solvable.
    normal = weighted @ terms + 1e-3 * numpy.eye(4)
    fitted = numpy.linalg.solve(normal, weighted @ shade[..., None])
    result: Array = (slopes @ fitted[:, 2:])[..., 0]
    return result
