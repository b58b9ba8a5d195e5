"""The images of a domain, made from raw files or from the images of another domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from galafed.digits.domains import COUNTS, DERIVED, Dress
from galafed.digits.paper_noise import on_paper
from galafed.digits.recipes import Recipe
from galafed.digits.sources import PARTS, Found, Origin, photographs
from galafed.digits.subsets import choose, demand_all_classes, divide_by_font, divide_shuffled
from galafed.digits.synthetic import generate
from galafed.errors import DataError
from galafed.lazy import numpy
from galafed.runs.seeding import array_generator
from galafed.transforms.background import draw_crops, invert_under
from galafed.transforms.colours import to_colour, to_gray
from galafed.transforms.scaling import resize, shrink_on_black
from galafed.transforms.stacking import shift_channels
from galafed.transforms.strokes import stroke_mask

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIZE = 32
SMALL = 20
CHANNEL_SHIFT = 3
STROKE_LEVEL = 128
"""From this grey level on a pixel of a grey digit belongs to its stroke."""

Arrays = dict[str, "NDArray[Any]"]
"""train.images uint8 [n, 32, 32, 3], train.labels int64 [n], train.bases int64 [n], and the same for test.

A base number is the row of an image in the raw files, those of the train file first; derived images keep it.
"""


def published(base: str, found: Found, counts: Mapping[str, int] = COUNTS) -> Arrays:
    """A base domain from its raw files."""
    arrays: Arrays = {}
    first = 0
    for part in PARTS:
        if part == "train" or not found.layout.undivided:
            raw = found.read(part)
        demand_all_classes(f"{found.of(part)[0]}, {part} images of {base}", raw.labels)
        rows = numpy.arange(len(raw))
        if found.layout.undivided:
            rows = divide_by_font(raw.columns["font"])[part]
        rows = rows[choose(base, part, len(rows), counts)]
        arrays[f"{part}.images"] = framed([raw.images[row] for row in rows.tolist()])
        arrays[f"{part}.labels"] = raw.labels[rows]
        arrays[f"{part}.bases"] = first + rows
        first += 0 if found.layout.undivided else len(raw)
    return arrays


def shuffled(base: str, found: Found) -> Arrays:
    """All images of a base, whichever file they are in, divided anew."""
    raws = {part: found.read(part) for part in PARTS}
    for part, raw in raws.items():
        demand_all_classes(f"{found.of(part)[0]}, {part} images of {base}", raw.labels)
    images = [image for raw in raws.values() for image in raw.images]
    labels = numpy.concatenate([raw.labels for raw in raws.values()])
    arrays: Arrays = {}
    for part, rows in divide_shuffled(base, len(labels)).items():
        arrays[f"{part}.images"] = framed([images[row] for row in rows.tolist()])
        arrays[f"{part}.labels"] = labels[rows]
        arrays[f"{part}.bases"] = rows
    return arrays


def framed(images: Sequence[NDArray[numpy.uint8]]) -> NDArray[numpy.uint8]:
    """Images [h, w] or [h, w, 3] of any size in the size and colours of the benchmark: [n, 32, 32, 3]."""
    result = numpy.empty((len(images), SIZE, SIZE, 3), numpy.uint8)
    for number, image in enumerate(images):
        small = image[None] if image.shape[:2] == (SIZE, SIZE) else resize(image[None], SIZE)
        result[number] = to_colour(small)[0]
    return result


def regenerated(glyphs: Found, photos: Found, recipe: Recipe, counts: Mapping[str, int] = COUNTS) -> Arrays:
    """SYN from the digits of fonts and from photographs; train and test share neither."""
    arrays: Arrays = {}
    first = 0
    for part in PARTS:
        masks, grounds = masks_by_font(glyphs, part), photographs(photos, part)
        images, labels = generate(masks, grounds, counts[part], ("digits", "syn", part), recipe=recipe)
        arrays[f"{part}.images"], arrays[f"{part}.labels"] = images, labels
        arrays[f"{part}.bases"] = first + numpy.arange(counts[part])
        first += counts[part]
    return arrays


def masks_by_font(glyphs: Found, part: str) -> NDArray[numpy.uint8]:
    """Masks [fonts, 10, h, w] of the fonts that have all ten digits."""
    raw = glyphs.read(part)
    (file,) = glyphs.of(part)
    if "font" not in raw.columns or not isinstance(raw.images, numpy.ndarray):
        raise DataError(f"{file}: needs a column 'font' and masks of one size; make it again.")
    demand_all_classes(str(file), raw.labels)
    masks = to_gray(raw.images)
    fonts: dict[object, dict[int, int]] = {}
    for row, (font, label) in enumerate(zip(raw.columns["font"], raw.labels.tolist(), strict=True)):
        fonts.setdefault(font, {})[label] = row
    whole = [[rows[digit] for digit in range(10)] for rows in fonts.values() if len(rows) == 10]
    inked = [rows for rows in whole if masks[rows].max(axis=(1, 2)).min() > STROKE_LEVEL]
    if not inked:
        raise DataError(f"{file}: no font in it has all ten digits; make it again.")
    result: NDArray[numpy.uint8] = masks[numpy.array(inked)]
    return result


def papered(arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """ARDIS II from the clean strokes of ARDIS IV."""
    result = _kept(arrays)
    for part in PARTS:
        rng = array_generator("digits", "ardis2", part)
        result[f"{part}.images"] = to_colour(on_paper(to_gray(arrays[f"{part}.images"]), rng))
    return result


def derived(domain: str, arrays: Mapping[str, NDArray[Any]], source: Origin, *, xs_gray: bool) -> Arrays:
    """A derived domain from the images of its base, train from train and test from test."""
    base, dress = DERIVED[domain]
    result = _kept(arrays)
    for part in PARTS:
        images = arrays[f"{part}.images"]
        if dress == "photo":
            backgrounds = photographs(source.found[-1], part)
            rng = array_generator("digits", domain, part)
            result[f"{part}.images"] = invert_under(
                strokes(base, images), draw_crops(backgrounds, images.shape[:3], rng)
            )
        else:
            result[f"{part}.images"] = dressed(dress, images, xs_gray=xs_gray)
    return result


def strokes(base: str, images: NDArray[numpy.uint8]) -> NDArray[numpy.bool_]:
    """Which pixels [n, 32, 32] of a base's images are digits: by level where digits are white on black, else sought."""
    return to_gray(images) >= STROKE_LEVEL if base == "usps" else stroke_mask(images)


def dressed(dress: Dress, images: NDArray[numpy.uint8], *, xs_gray: bool) -> NDArray[numpy.uint8]:
    """Images [n, 32, 32, 3] made small on black, or with their channels shifted apart."""
    if dress == "stack":
        return shift_channels(to_gray(images), CHANNEL_SHIFT)
    return to_colour(shrink_on_black(to_gray(images) if xs_gray else images, SMALL, SIZE))


def _kept(arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Labels and base numbers, which every derived image shares with its base."""
    return {f"{part}.{what}": numpy.array(arrays[f"{part}.{what}"]) for part in PARTS for what in ("labels", "bases")}
