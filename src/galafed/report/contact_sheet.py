"""A sheet of samples: a row for each domain, a column for each class."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from galafed.benchmarks.base import Split

if TYPE_CHECKING:
    from PIL.Image import Image

CELL = 48
"""Least side of a sample in pixels; small images are enlarged by whole numbers, so that their pixels stay square."""
LARGEST = 96
GAP, MARGIN, LETTERS = 2, 12, 14


def contact_sheet(
    title: str, samples: Mapping[str, Mapping[str, Sequence[Any]]], classes: Sequence[str], per_class: int
) -> bytes:
    """A PNG of `per_class` images uint8 [size, size, 3] of every class of every domain; an absent one stays grey."""
    from PIL import Image, ImageDraw

    side = cell_side(next((image for row in samples.values() for cell in row.values() for image in cell), None))
    font = _font()
    names = list(samples)
    left = MARGIN + max((int(font.getlength(name)) for name in names), default=0) + MARGIN
    cell = per_class * (side + GAP) + MARGIN
    top = 2 * MARGIN + 3 * LETTERS
    width = max(left + len(classes) * cell + MARGIN, left + int(font.getlength(title)))
    sheet = Image.new("RGB", (width, top + len(names) * (side + MARGIN) + MARGIN), "white")
    draw = ImageDraw.Draw(sheet)
    draw.text((MARGIN, MARGIN), title, "black", font)
    for column, label in enumerate(classes):
        draw.text((left + column * cell, MARGIN + 2 * LETTERS), _fitting(label, cell, font), "#444444", font)
    for row, name in enumerate(names):
        y = top + row * (side + MARGIN)
        draw.text((MARGIN, y + (side - LETTERS) // 2), name, "black", font)
        for column, label in enumerate(classes):
            images = samples[name].get(label, ())
            for place in range(per_class):
                x = left + column * cell + place * (side + GAP)
                if place < len(images):
                    sheet.paste(_scaled(images[place], side), (x, y))
                else:
                    draw.rectangle((x, y, x + side - 1, y + side - 1), "#eeeeee")
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    return buffer.getvalue()


def pick(split: Split, classes: Sequence[str], per_class: int) -> dict[str, list[Any]]:
    """The first images of each class: the same ones whenever the sheet is drawn."""
    chosen: dict[str, list[Any]] = {}
    for number, label in enumerate(classes):
        members = (split.labels == number).nonzero()[0][:per_class]
        chosen[label] = [split.images[member] for member in members]
    return chosen


def cell_side(image: Any) -> int:
    """How large samples are drawn: a whole multiple of a small image, or `LARGEST` for a large one."""
    size = CELL if image is None else int(image.shape[0])
    return LARGEST if size > LARGEST else size * max(1, -(-CELL // size))


def _font() -> Any:
    """Matplotlib's own font, which has the letters of most alphabets."""
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), LETTERS)


def _scaled(image: Any, side: int) -> Image:
    from PIL import Image

    way = Image.Resampling.NEAREST if image.shape[0] <= side else Image.Resampling.BILINEAR
    return Image.fromarray(image).resize((side, side), way)


def _fitting(text: str, width: int, font: Any) -> str:
    while len(text) > 1 and font.getlength(text) > width - GAP:
        text = text[:-1]
    return text
