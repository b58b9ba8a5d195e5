"""Handwriting on noisy grey paper: the stand-in for ARDIS II, whose digits were not cleaned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from galafed.lazy import numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAPER = (140.0, 215.0)
INK = (25.0, 95.0)
"""Levels of the paper and of a stroke that covers it wholly."""
STAINS, STAIN_CELLS = 14.0, 5
"""Deviation of the paper's level from place to place, and in how many cells a side it is drawn."""
GRAIN = (3.0, 11.0)
"""Deviation of the noise of single pixels."""
SHADE = 20.0
"""Levels gained or lost from one edge of the frame to the other."""


def on_paper(strokes: NDArray[numpy.uint8], rng: numpy.random.Generator) -> NDArray[numpy.uint8]:
    """Strokes [n, h, w], 255 where ink covers the paper, as dark ink on stained, grainy paper: [n, h, w]."""
    count, height, width = strokes.shape
    paper = rng.uniform(*PAPER, (count, 1, 1)) + _stains(strokes.shape, rng)
    rows, columns = numpy.linspace(-0.5, 0.5, height)[:, None], numpy.linspace(-0.5, 0.5, width)
    slopes = rng.uniform(-SHADE, SHADE, (2, count, 1, 1))
    paper += slopes[0] * rows + slopes[1] * columns
    cover = strokes / 255
    scene = paper * (1 - cover) + rng.uniform(*INK, (count, 1, 1)) * cover
    scene += rng.standard_normal(strokes.shape) * rng.uniform(*GRAIN, (count, 1, 1))
    result: NDArray[numpy.uint8] = numpy.rint(numpy.clip(scene, 0, 255)).astype(numpy.uint8)
    return result


def _stains(shape: tuple[int, ...], rng: numpy.random.Generator) -> NDArray[numpy.float64]:
    """Smooth random levels [n, h, w]: a few values a side, joined linearly."""
    coarse = rng.normal(0, STAINS, (shape[0], STAIN_CELLS, STAIN_CELLS))
    result: NDArray[numpy.float64] = _joining(shape[1]) @ coarse @ _joining(shape[2]).T
    return result


def _joining(size: int) -> NDArray[numpy.float64]:
    """Linear interpolation from the cells to `size` pixels as a matrix."""
    places = numpy.linspace(0, STAIN_CELLS - 1, size)
    result: NDArray[numpy.float64] = numpy.clip(1 - abs(places[:, None] - numpy.arange(STAIN_CELLS)), 0, None)
    return result
