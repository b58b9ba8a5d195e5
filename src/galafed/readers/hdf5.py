"""USPS as HDF5 (`usps.h5`): groups `train` and `test`, each with `data` [n, 256] in 0 .. 1 and `target` [n]."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from galafed.errors import DataError
from galafed.readers.base import DIGITS, Raw, checked_labels, checked_pixels, existing, same_count, shown

SIDE = 16
VALUES_MAX = 2**28
"""More than any published file; a damaged file may claim anything."""


def read(path: Path, split: str = "train") -> Raw:
    """Images [n, 16, 16] of a split with labels 0 .. 9."""
    import h5py

    try:
        with h5py.File(existing(path), "r") as file:
            values, labels = (_array(path, file, f"{split}/{name}") for name in ("data", "target"))
    except DataError:
        raise
    except Exception as error:  # damaged files make the library raise nearly anything
        why = str(error) or type(error).__name__
        raise DataError(f"{shown(path)}: is not a readable HDF5 file ({why}); fetch it again") from None
    same_count(path, path, len(values), labels.size)
    if values[0].size != SIDE * SIDE:
        raise DataError(f"{shown(path)}: {split}/data has the shape {values.shape}, expected [n, 256]; fetch it again")
    return Raw(
        images=checked_pixels(path, values, 0, 1).reshape(-1, SIDE, SIDE),
        labels=checked_labels(path, labels, len(DIGITS)),
        classes=DIGITS,
    )


def _array(path: Path, file: Any, name: str) -> Any:
    import h5py

    found = file.get(name)
    if not isinstance(found, h5py.Dataset) or found.ndim == 0:
        has = ", ".join(sorted(str(key) for key in file)) or "nothing"
        raise DataError(f"{shown(path)}: has no array {name!r} (it has {has}); give the file as published")
    if found.size > VALUES_MAX:
        raise DataError(f"{shown(path)}: {name} claims {found.size} values, it is damaged; fetch it again")
    return found[()]
