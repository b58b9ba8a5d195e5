"""Two ways to draw SYN where its files cannot be had; what they have in common is in lettering.py and synthetic.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from galafed.errors import DataError
from galafed.lazy import numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

Name = Literal["legible", "wild"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Bounds of what is drawn for each image; lengths in pixels of the 32-pixel frame."""

    ordinary: float
    """How much the digits of a font must at least be like those of the others: a correlation, -1 takes all fonts."""
    height: tuple[float, float]
    width: tuple[float, float]
    """A factor on the width alone."""
    contrast: tuple[float, float]
    """Between ground and stroke, in levels of 0..255; log-uniform."""
    blur: tuple[float, float]
    motion_blur: float
    """The most that is added along one axis."""


RECIPES: Mapping[Name, Recipe] = {
    "legible": Recipe(
        ordinary=0.72, height=(18.0, 28.0), width=(0.6, 1.1), contrast=(30.0, 190.0), blur=(0.2, 1.4), motion_blur=1.0
    ),
    "wild": Recipe(
        ordinary=-1.0, height=(14.0, 26.0), width=(0.6, 1.2), contrast=(30.0, 190.0), blur=(0.2, 1.7), motion_blur=1.2
    ),
}
"""`legible` leaves out fonts whose digits look like no others', and strokes that blur takes away; `wild`, which came
first, has them. Networks learn the published SYN nearly without mistakes, and so they do the former (results/syn)."""


def ordinary_fonts(masks: NDArray[numpy.uint8], least: float) -> NDArray[numpy.uint8]:
    """The fonts of masks [fonts, 10, h, w] whose digits correlate with their mean over fonts by `least` on average."""
    flat = masks.reshape(*masks.shape[:2], -1).astype(numpy.float64)
    typical = flat.mean(axis=0)
    flat -= flat.mean(axis=2, keepdims=True)
    typical -= typical.mean(axis=1, keepdims=True)
    lengths = numpy.linalg.norm(flat, axis=2) * numpy.linalg.norm(typical, axis=1)
    likeness = ((flat * typical).sum(axis=2) / numpy.maximum(lengths, 1e-12)).mean(axis=1)
    kept: NDArray[numpy.uint8] = masks[likeness >= least]
    if not len(kept):
        raise DataError('glyphs: the digits of no font look like those of the others; add fonts, or set syn = "wild"')
    return kept
