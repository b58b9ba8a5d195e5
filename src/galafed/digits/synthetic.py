"""Synthetic Digits regenerated: scenes like those of SVHN from the digits of web fonts and photographs.

The published set cannot always be had; this stands in for it, and its likeness to the original is unverified. The
numbers below were chosen by the transfer to labelled SVHN *train* images; those of recipes.py by that and by how well
a network can learn the images themselves (see results/syn).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from galafed.digits.lettering import SIZE, Glyphs, Line, draw_lines, glyphs_of
from galafed.digits.recipes import RECIPES, Recipe, ordinary_fonts
from galafed.lazy import numpy
from galafed.runs.seeding import array_generator
from galafed.transforms.background import draw_crops

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Colours = NDArray[numpy.floating[Any]]

BUNCH = 500
"""Images drawn together. Each bunch has a random stream of its own, so how many are made changes none of them."""

LUMINANCE = (30.0, 225.0)
HUE_AXIS = (1.0, 0.2, -1.2)
"""From blue to yellow-red, along which most colours of houses lie."""
CHROMA, VIVID_CHROMA, VIVID, FREE = 8.0, 55.0, 0.12, 0.4
CAST = 6.0
PLATE, PLATE_EDGE = 0.5, (0.05, 0.5)
"""How often the ground ends at a line, and how far from the digit, in its heights."""
SHADOW, SHADOW_STRENGTH, SHADOW_DARK = 0.3, (0.2, 0.8), 0.7
OUTLINE = 0.15
TEXTURE, TEXTURE_WEIGHT, TEXTURE_ON_STROKE = 0.5, 0.25, 0.4
LIGHT = 25.0
"""Levels gained or lost over half the frame."""
MOTION = 0.4
"""How often an image is blurred more along one axis."""
NOISE = 6.0
COARSE = 28
"""The images are brought to this size and back, as the copy of SVHN they were fitted to was."""


def generate(
    masks: NDArray[numpy.uint8],
    photographs: Sequence[NDArray[numpy.uint8]],
    count: int,
    stream: tuple[object, ...],
    progress: Callable[[int], None] = lambda done: None,
    *,
    recipe: Recipe = RECIPES["legible"],
) -> tuple[NDArray[numpy.uint8], NDArray[numpy.int64]]:
    """Images [count, 32, 32, 3] and labels [count] from masks [fonts, 10, h, w]; `stream` names the random draws."""
    glyphs = glyphs_of(ordinary_fonts(masks, recipe.ordinary))
    images, labels = numpy.empty((count, SIZE, SIZE, 3), numpy.uint8), numpy.empty(count, numpy.int64)
    for start in range(0, count, BUNCH):
        bunch = slice(start, min(start + BUNCH, count))
        # The whole bunch is drawn even where only its beginning is needed.
        drawn, named = _bunch(glyphs, photographs, recipe, array_generator(*stream, start // BUNCH))
        images[bunch], labels[bunch] = drawn[: bunch.stop - start], named[: bunch.stop - start]
        progress(bunch.stop)
    return images, labels


def _bunch(
    glyphs: Glyphs, photographs: Sequence[NDArray[numpy.uint8]], recipe: Recipe, rng: numpy.random.Generator
) -> tuple[NDArray[numpy.uint8], NDArray[numpy.int64]]:
    labels = rng.integers(10, size=BUNCH)
    line = draw_lines(glyphs, labels, recipe, rng)
    scene = _paint(line, recipe, rng)
    scene += _texture(line, photographs, rng)
    scene += _light(rng)
    scene = _blur(scene, recipe, rng)
    scene += rng.standard_normal(scene.shape, numpy.float32) * rng.uniform(0, NOISE, (BUNCH, 1, 1, 1)).astype(
        numpy.float32
    )
    coarse = _resampling(COARSE, SIZE) @ _resampling(SIZE, COARSE)
    scene = coarse @ scene @ coarse.T
    images: NDArray[numpy.uint8] = numpy.rint(numpy.clip(scene, 0, 255)).astype(numpy.uint8)
    return numpy.ascontiguousarray(images.transpose(0, 2, 3, 1)), labels


def _paint(line: Line, recipe: Recipe, rng: numpy.random.Generator) -> Colours:
    """Ground, plate, shadow, outline and strokes, one over the other: [n, 3, 32, 32] in levels of 0..255."""
    luminance = rng.uniform(*LUMINANCE, BUNCH)
    low, high = (math.log(bound) for bound in recipe.contrast)
    contrast = numpy.exp(rng.uniform(low, high, BUNCH)) * rng.choice((-1, 1), BUNCH)
    # A stroke that would be lighter than white or darker than black takes the other side of the ground.
    contrast = numpy.where((luminance + contrast < 0) | (luminance + contrast > 255), -contrast, contrast)
    cast = rng.normal(0, CAST, (BUNCH, 3))
    ground = _colours(luminance, rng) + cast
    stroke = _colours(luminance + contrast, rng) + cast
    beyond = _colours(rng.uniform(*LUMINANCE, BUNCH), rng) + cast
    third = _colours(rng.uniform(0, 255, BUNCH), rng) + cast
    scene = _over(_flat(ground), _flat(beyond), _outside(line, rng))
    dark = numpy.where(rng.random(BUNCH) < SHADOW_DARK, 0.0, 255.0)
    scene = _over(scene, _flat(numpy.repeat(dark[:, None], 3, axis=1)), _shadow(line.stroke, rng))
    outlined = (rng.random(BUNCH) < OUTLINE)[:, None, None]
    scene = _over(scene, _flat(third), _spread(line.stroke) * outlined)
    return _over(scene, _flat(stroke), line.stroke)


def _colours(luminance: NDArray[numpy.float64], rng: numpy.random.Generator) -> NDArray[numpy.float64]:
    """A colour [n, 3] of each luminance [n], most nearly grey and a few vivid."""
    count = len(luminance)
    scale = numpy.where(rng.random(count) < VIVID, VIVID_CHROMA, CHROMA)[:, None]
    along = rng.standard_normal((count, 1)) * numpy.asarray(HUE_AXIS)
    free = FREE * rng.standard_normal((count, 3))
    result: NDArray[numpy.float64] = luminance[:, None] + scale * (along + free)
    return result


def _flat(colours: NDArray[numpy.float64]) -> Colours:
    return numpy.clip(colours, 0, 255).astype(numpy.float32)[:, :, None, None]


def _over(below: Colours, above: Colours, cover: Colours) -> Colours:
    """`above` laid over `below` where `cover` [n, 32, 32] says."""
    return below + (above - below) * cover[:, None]


def _outside(line: Line, rng: numpy.random.Generator) -> Colours:
    """Where the ground has ended: beyond a line above, below, left or right of the labelled digit."""
    side = rng.integers(4, size=BUNCH)
    distance = rng.uniform(*PLATE_EDGE, BUNCH) + numpy.where(side < 2, 0.5, line.half_width)
    place = numpy.where((side < 2)[:, None, None], line.down, line.across)
    away = place * numpy.where(side % 2 == 0, -1, 1)[:, None, None] - distance[:, None, None]
    there = (rng.random(BUNCH) < PLATE)[:, None, None]
    outside: Colours = (numpy.clip(away * line.height[:, None, None] + 0.5, 0, 1) * there).astype(numpy.float32)
    return outside


def _shadow(stroke: Colours, rng: numpy.random.Generator) -> Colours:
    """The strokes moved by a pixel or two, as strong as their shadow."""
    strength = rng.uniform(*SHADOW_STRENGTH, BUNCH) * (rng.random(BUNCH) < SHADOW)
    moves = rng.integers(-2, 3, size=(BUNCH, 2))
    frame = numpy.arange(SIZE)
    rows = numpy.clip(frame - moves[:, :1], 0, SIZE - 1)
    columns = numpy.clip(frame - moves[:, 1:], 0, SIZE - 1)
    moved = stroke[numpy.arange(BUNCH)[:, None, None], rows[:, :, None], columns[:, None, :]]
    shadow: Colours = (moved * strength[:, None, None]).astype(numpy.float32)
    return shadow


def _spread(stroke: Colours) -> Colours:
    """Strokes widened by a pixel on every side: the maximum over 3x3 neighbours."""
    padded = numpy.pad(stroke, ((0, 0), (1, 1), (1, 1)), mode="edge")
    tall = numpy.maximum(numpy.maximum(padded[:, :-2], padded[:, 1:-1]), padded[:, 2:])
    result: Colours = numpy.maximum(numpy.maximum(tall[:, :, :-2], tall[:, :, 1:-1]), tall[:, :, 2:])
    return result


def _texture(line: Line, photographs: Sequence[NDArray[numpy.uint8]], rng: numpy.random.Generator) -> Colours:
    """The pattern of a photograph in half of the images, fainter on the strokes."""
    weight = rng.uniform(0, TEXTURE_WEIGHT, BUNCH) * (rng.random(BUNCH) < TEXTURE)
    crops = draw_crops(photographs, (BUNCH, SIZE, SIZE), rng).transpose(0, 3, 1, 2).astype(numpy.float32)
    crops -= crops.mean(axis=(1, 2, 3), keepdims=True)
    cover = weight[:, None, None].astype(numpy.float32) * (1 - (1 - TEXTURE_ON_STROKE) * line.stroke)
    result: Colours = crops * cover[:, None]
    return result


def _light(rng: numpy.random.Generator) -> Colours:
    """A linear gradient [n, 1, 32, 32]."""
    slopes = rng.uniform(-LIGHT, LIGHT, (2, BUNCH, 1, 1, 1)).astype(numpy.float32)
    rows, columns = (numpy.mgrid[:SIZE, :SIZE].astype(numpy.float32) - (SIZE - 1) / 2) / (SIZE / 2)
    result: Colours = slopes[0] * rows + slopes[1] * columns
    return result


def _blur(scene: Colours, recipe: Recipe, rng: numpy.random.Generator) -> Colours:
    """Gaussian blur, stronger along one axis in some images."""
    even = rng.uniform(*recipe.blur, BUNCH)
    extra = rng.uniform(0, recipe.motion_blur, BUNCH) * (rng.random(BUNCH) < MOTION)
    along = rng.random(BUNCH) < 0.5
    down = _smoothing(numpy.hypot(even, extra * along))
    across = _smoothing(numpy.hypot(even, extra * ~along))
    result: Colours = down[:, None] @ scene @ across.transpose(0, 2, 1)[:, None]
    return result


def _smoothing(deviation: NDArray[numpy.float64]) -> Colours:
    """A Gaussian filter along one axis as a matrix [n, 32, 32] for each deviation [n]."""
    frame = numpy.arange(SIZE)
    distance = frame[:, None] - frame
    kernel = numpy.exp(-0.5 * (distance / deviation[:, None, None]) ** 2)
    filters: Colours = (kernel / kernel.sum(axis=2, keepdims=True)).astype(numpy.float32)
    return filters


def _resampling(size: int, result: int) -> Colours:
    """Bilinear resizing along one axis from `size` to `result` pixels as a matrix, averaging if it shrinks."""
    scale = size / result
    centres = (numpy.arange(result) + 0.5) * scale - 0.5
    weights = numpy.clip(1 - abs(centres[:, None] - numpy.arange(size)) / max(scale, 1), 0, None)
    matrix: Colours = (weights / weights.sum(axis=1, keepdims=True)).astype(numpy.float32)
    return matrix
