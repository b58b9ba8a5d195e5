"""The Hugging Face image layout: Parquet files with a column `image` = {bytes, path} and a column `label`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from galafed.errors import DataError
from galafed.readers.base import Raw, checked_labels, existing, gathered, shown
from galafed.readers.pictures import decode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def read(path: Path) -> Raw:
    """Every row of a Parquet file, images decoded."""
    import pyarrow
    import pyarrow.parquet

    try:
        # Not read_table: it takes a folder for one table, and adds columns named after parts of the path.
        with pyarrow.parquet.ParquetFile(existing(path)) as file:
            table = file.read()
    except (OSError, pyarrow.ArrowException, ValueError) as error:
        raise DataError(f"{shown(path)}: is not a readable Parquet file ({error}); fetch it again") from None
    for column in ("image", "label"):
        if column not in table.column_names:
            raise DataError(
                f"{shown(path)}: has no column {column!r} (it has {', '.join(table.column_names)}); "
                "rename its columns to image and label"
            )
    if table.num_rows == 0:
        raise DataError(f"{shown(path)}: holds no image; fetch it again")
    classes = _classes(table.schema.metadata or {})
    others = [name for name in table.column_names if name not in ("image", "label")]
    return Raw(
        images=gathered(_images(path, table.column("image")), table.num_rows),
        labels=_labels(path, table.column("label"), classes),
        classes=classes,
        columns={name: _values(path, name, table.column(name)) for name in others},
    )


def _images(path: Path, column: Any) -> Iterator[NDArray[np.uint8]]:
    import pyarrow
    import pyarrow.compute

    if pyarrow.types.is_struct(column.type) and "bytes" in (field.name for field in column.type):
        column = pyarrow.compute.struct_field(column, "bytes")
    # One at a time: the bytes of all rows as Python objects would double the memory.
    for number, row in enumerate(column, 1):
        content = row.as_py()
        if not isinstance(content, bytes):
            raise DataError(
                f"{shown(path)}: image {number} has no bytes; save the table with the images embedded in it"
            )
        yield decode(content, f"{shown(path)}, image {number}")


def _labels(path: Path, column: Any, classes: tuple[str, ...]) -> NDArray[np.int64]:
    import pyarrow

    if not pyarrow.types.is_integer(column.type) or column.null_count:
        raise DataError(f"{shown(path)}: the column 'label' must hold a whole number in every row; correct it")
    return checked_labels(path, column.to_numpy(), len(classes) or 2**31)


def _values(path: Path, name: str, column: Any) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError) as error:  # text that is not UTF-8, a date beyond what Python knows
        raise DataError(f"{shown(path)}: column {name!r} cannot be read ({error}); fetch it again") from None


def _classes(metadata: dict[bytes, bytes]) -> tuple[str, ...]:
    """The class names that Hugging Face's `datasets` keeps in the schema."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return tuple(str(name) for name in features["label"]["names"])
    except (KeyError, TypeError, ValueError):
        return ()
