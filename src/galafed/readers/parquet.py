"""The Hugging Face image layout: Parquet files with a column `image` = {bytes, path} and a column `label`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.parquet
from PIL import Image, UnidentifiedImageError

from galafed.errors import DataError
from galafed.readers.base import Raw


def read(path: Path) -> Raw:
    """Every row of a Parquet file, images decoded."""
    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: is not a readable Parquet file ({error}); fetch it again") from None
    for column in ("image", "label"):
        if column not in table.column_names:
            raise DataError(f"{path}: has no column {column!r} (it has {', '.join(table.column_names)})")
    images = list(_images(path, table.column("image")))
    if len({image.shape for image in images}) == 1:
        images = numpy.stack(images)  # type: ignore[assignment]
    others = [name for name in table.column_names if name not in ("image", "label")]
    return Raw(
        images=images,
        labels=numpy.asarray(table.column("label").to_pylist(), dtype=numpy.int64),
        classes=_classes(table.schema.metadata or {}),
        columns={name: table.column(name).to_pylist() for name in others},
    )


def _images(path: Path, column: Any) -> Iterator[Any]:
    for number, row in enumerate(column.to_pylist()):
        try:
            with Image.open(io.BytesIO(row["bytes"])) as picture:
                yield numpy.asarray(picture.convert("L" if picture.mode in ("L", "1") else "RGB"))
        except (UnidentifiedImageError, OSError, TypeError, KeyError, ValueError) as error:
            raise DataError(f"{path}: image {number} cannot be decoded ({error}); fetch the file again") from None


def _classes(metadata: dict[bytes, bytes]) -> tuple[str, ...]:
    """The class names that Hugging Face's `datasets` keeps in the schema."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return tuple(str(name) for name in features["label"]["names"])
    except (KeyError, TypeError, ValueError):
        return ()
