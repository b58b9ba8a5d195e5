"""House numbers as masks: a digit and its neighbours from one font, turned, sheared and seen at an angle.

Lengths are in pixels of the 32-pixel frame, or in heights of the digit where it says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from galafed.digits.recipes import Recipe
from galafed.lazy import numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[numpy.floating[Any]]

SIZE = 32
SLOTS = 5
"""Places for digits on a line: two neighbours, the digit that gives the label, two neighbours."""
MIDDLE = 2
NEIGHBOUR = 0.65
"""Probability of a digit beside the labelled one, and of a second one beside that."""
GAP = (0.02, 0.25)
"""Between digits, in heights."""
SHIFT = 2.0
TURN = 8.0
"""Degrees."""
SHEAR = 0.3
PERSPECTIVE = 0.12
"""How much nearer the edge of the frame may be than its middle."""
WEIGHT = 0.15
"""Shift of the level at which a mask counts as stroke: bolder or lighter digits."""
SHARPNESS = 2.5
"""Slope of the edge of a stroke at that level."""
FAR = 1e3
"""Where an absent neighbour stands."""
INK = 60
"""The least level of a mask that belongs to the digit rather than to the soft edge of its frame."""


@dataclass(frozen=True)
class Glyphs:
    """Masks float32 [fonts, 10, h, w] in 0..1 by font and digit, and of each digit its box in pixels."""

    masks: Floats
    centre: Floats
    """Column and row of the middle of each digit: [fonts, 10, 2]."""
    extent: Floats
    """Width and height of each digit: [fonts, 10, 2]."""


def glyphs_of(masks: NDArray[numpy.uint8]) -> Glyphs:
    """Measure masks [fonts, 10, h, w] and soften them a little, for they are drawn at about half their size."""
    inked: NDArray[numpy.bool_] = masks > INK
    centre, extent = numpy.empty((2, *masks.shape[:2], 2), numpy.float32)
    for axis in (0, 1):
        across = numpy.asarray(inked.any(axis=2 + axis))
        first = across.argmax(axis=2)
        last = across.shape[2] - across[:, :, ::-1].argmax(axis=2)
        centre[..., axis], extent[..., axis] = (first + last - 1) / 2, last - first
    soft: Floats = masks.astype(numpy.float32) / numpy.float32(255)
    for axis in (2, 3):
        padded = numpy.pad(soft, [(1, 1) if a == axis else (0, 0) for a in range(4)], mode="edge")
        before, here, after = (
            numpy.take(padded, numpy.arange(start, start + masks.shape[axis]), axis) for start in range(3)
        )
        soft = (before + 2 * here + after) / 4
    return Glyphs(soft, centre, extent)


@dataclass(frozen=True)
class Line:
    """Drawn digits [n, 32, 32]: how much of each pixel is stroke, and each pixel's place in heights from the label."""

    stroke: Floats
    across: Floats
    """From the middle of the labelled digit to the right."""
    down: Floats
    half_width: Floats
    """Of the labelled digit, in heights: [n]."""
    height: Floats
    """Of the labelled digit, in pixels: [n]."""


def draw_lines(glyphs: Glyphs, labels: NDArray[numpy.int64], recipe: Recipe, rng: numpy.random.Generator) -> Line:
    """One house number for each label [n], the labelled digit in the middle of the frame."""
    count = len(labels)
    height = rng.uniform(*recipe.height, count).astype(numpy.float32)
    across, down = _places(height, recipe.width, rng)
    fonts = rng.integers(len(glyphs.masks), size=count)
    digits, middles, halves = _arrange(glyphs, fonts, labels, rng)
    # Digits do not overlap, so every pixel belongs to one place on the line: the one between the nearest borders.
    borders = (middles[:, :-1] + halves[:, :-1] + middles[:, 1:] - halves[:, 1:]) / 2
    slot = (across[:, None] > borders[:, :, None, None]).sum(axis=1)
    image = numpy.arange(count)[:, None, None]
    digit = digits[image, slot]
    font = numpy.broadcast_to(fonts[:, None, None], digit.shape)
    box = glyphs.extent[font, digit, 1]
    column = (across - middles[image, slot]) * box + glyphs.centre[font, digit, 0]
    row = down * box + glyphs.centre[font, digit, 1]
    found = _sample(glyphs.masks, font, digit, column, row)
    level = 0.5 + rng.uniform(-WEIGHT, WEIGHT, (count, 1, 1)).astype(numpy.float32)
    stroke = numpy.clip((found - level) * SHARPNESS + 0.5, 0, 1)
    return Line(stroke, across, down, halves[:, MIDDLE], height)


def _places(height: Floats, width: tuple[float, float], rng: numpy.random.Generator) -> tuple[Floats, ...]:
    """Where each pixel lies on the line of digits, in heights: across and down, [n, 32, 32] each."""
    count = len(height)
    draw = {
        name: rng.uniform(low, high, (count, 1, 1)).astype(numpy.float32)
        for name, low, high in (
            ("wide", *width),
            ("right", -SHIFT, SHIFT),
            ("low", -SHIFT, SHIFT),
            ("turn", -numpy.radians(TURN), numpy.radians(TURN)),
            ("shear", -SHEAR, SHEAR),
            ("near_x", -PERSPECTIVE, PERSPECTIVE),
            ("near_y", -PERSPECTIVE, PERSPECTIVE),
        )
    }
    rows, columns = numpy.mgrid[:SIZE, :SIZE].astype(numpy.float32) - (SIZE - 1) / 2
    x, y = columns - draw["right"], rows - draw["low"]
    depth = 1 + (draw["near_x"] * x + draw["near_y"] * y) / (SIZE / 2)
    x, y = x / depth, y / depth
    cosine, sine = numpy.cos(draw["turn"]), numpy.sin(draw["turn"])
    x, y = cosine * x + sine * y, cosine * y - sine * x
    x = (x + draw["shear"] * y) / draw["wide"]
    return x / height[:, None, None], y / height[:, None, None]


def _arrange(
    glyphs: Glyphs, fonts: NDArray[numpy.int64], labels: NDArray[numpy.int64], rng: numpy.random.Generator
) -> tuple[NDArray[numpy.int64], Floats, Floats]:
    """The digit in every place [n, 5], the place of its middle and half its width, in heights."""
    count = len(labels)
    digits = rng.integers(10, size=(count, SLOTS))
    digits[:, MIDDLE] = labels
    present = rng.random((count, SLOTS)) < NEIGHBOUR
    present[:, 0] &= present[:, 1]
    present[:, 4] &= present[:, 3]
    gaps = rng.uniform(*GAP, (count, SLOTS)).astype(numpy.float32)
    extent = glyphs.extent[fonts[:, None], digits]
    halves = extent[..., 0] / extent[..., 1] / 2
    middles = numpy.zeros((count, SLOTS), numpy.float32)
    for slot, inner in ((1, 2), (0, 1), (3, 2), (4, 3)):
        step = halves[:, inner] + gaps[:, slot] + halves[:, slot]
        moved = middles[:, inner] + numpy.sign(slot - inner) * step
        middles[:, slot] = numpy.where(
            present[:, slot], moved, numpy.sign(slot - MIDDLE) * FAR * (1 + abs(slot - MIDDLE))
        )
    return digits, middles, halves


def _sample(
    masks: Floats,
    font: NDArray[numpy.int64],
    digit: NDArray[numpy.int64],
    column: Floats,
    row: Floats,
) -> Floats:
    """Masks at fractional places, bilinearly; nothing beyond their edges."""
    bottom, right = masks.shape[2] - 1, masks.shape[3] - 1
    inside = (column > 0) & (column < right) & (row > 0) & (row < bottom)
    column, row = numpy.clip(column, 0, right - 1e-3), numpy.clip(row, 0, bottom - 1e-3)
    left, top = column.astype(numpy.int64), row.astype(numpy.int64)
    x, y = column - left, row - top
    flat = masks.reshape(-1)
    first = ((font * masks.shape[1] + digit) * (bottom + 1) + top) * (right + 1) + left
    upper = flat[first] * (1 - x) + flat[first + 1] * x
    lower = flat[first + right + 1] * (1 - x) + flat[first + right + 2] * x
    return numpy.where(inside, upper * (1 - y) + lower * y, 0).astype(numpy.float32)
