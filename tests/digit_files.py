"""Small raw files of the digit benchmarks, written in the formats they are published in."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

COUNTS = {"train": 40, "test": 20}
RAW = {"train": 60, "test": 30}
"""Images in the raw files of the large bases; the benchmark takes fewer."""


def write_parquet(path: Path, images: NDArray[np.uint8], labels: list[int], **columns: list[str]) -> None:
    """Images and labels in the Hugging Face layout."""
    rows = []
    for number, image in enumerate(images):
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "PNG")
        rows.append({"bytes": buffer.getvalue(), "path": f"{number}.png"})
    features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": [str(d) for d in range(10)]}}
    table = pa.table({"image": rows, "label": labels, **columns})
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(metadata), path)


def digit_images(count: int, size: int, *, colour: bool, seed: int) -> tuple[NDArray[np.uint8], list[int]]:
    """Noise with a bright bar whose place tells the label; every image is different."""
    rng = np.random.default_rng(seed)
    labels = [number % 10 for number in range(count)]
    images = rng.integers(0, 60, (count, size, size, 3) if colour else (count, size, size)).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[size // 4 : -(size // 4), size * label // 12 + 1 : size * label // 12 + 4] = 220
    return images, labels


def glyph_masks(fonts: int) -> NDArray[np.uint8]:
    """Masks [fonts * 10, 40, 40]: a full box for odd digits, a hollow one for even digits."""
    masks = np.zeros((fonts, 10, 40, 40), np.uint8)
    masks[:, :, 2:38, 8:32] = 255
    masks[:, ::2, 10:30, 14:26] = 0
    return masks.reshape(-1, 40, 40)


def photographs(part: str, count: int = 3) -> NDArray[np.uint8]:
    """Photographs of one colour, another one for each part."""
    colour = {"train": (10, 20, 30), "test": (60, 70, 80)}[part]
    return np.broadcast_to(np.array(colour, np.uint8), (count, 48, 64, 3)).copy()


BASES = {
    "mnist": (28, False), "mnistm": (32, True), "svhn": (28, True), "usps": (16, False),
    "ardis": (28, False), "fontdigits": (28, False),
}  # fmt: skip


def write_all(folder: Path) -> None:
    """A small copy of everything, in the Parquet layout."""
    for part in ("train", "test"):
        for seed, (base, (size, colour)) in enumerate(BASES.items()):
            images, labels = digit_images(RAW[part], size, colour=colour, seed=2 * seed + (part == "test"))
            write_parquet(folder / base / f"{part}.parquet", images, labels)
        fonts = 4 if part == "train" else 2
        names = [f"{part}-{font}" for font in range(fonts) for _ in range(10)]
        write_parquet(folder / "glyphs" / f"{part}.parquet", glyph_masks(fonts), [*range(10)] * fonts, font=names)
        write_parquet(folder / "photos" / f"{part}.parquet", photographs(part), [0] * 3)
