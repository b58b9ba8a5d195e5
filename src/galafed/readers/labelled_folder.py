"""MNIST-M: a folder of pictures and a text file with a line `name label` for each."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from galafed.errors import DataError
from galafed.readers import pictures
from galafed.readers.base import DIGITS, Raw, checked_labels, existing, gathered, shown


def read(folder: Path, labels: Path) -> Raw:
    """The listed pictures in the order of the list, with labels 0 .. 9; column path."""
    if not os.path.isdir(folder):
        raise DataError(f"{shown(folder)}: is not a folder; unpack the archive again")
    names, numbers = _parsed(labels)
    missing = next((name for name in names if not os.path.isfile(folder / name)), None)
    if missing is not None:
        raise DataError(
            f"{shown(folder / missing)}: is listed in {shown(labels)} but does not exist; unpack the archive again"
        )
    return Raw(
        images=gathered((pictures.read(folder / name) for name in names), len(names)),
        labels=checked_labels(labels, numbers, len(DIGITS)),
        classes=DIGITS,
        columns={"path": [folder / name for name in names]},
    )


def _parsed(path: Path) -> tuple[list[str], list[int]]:
    """Names and labels of the list; a name may have blanks in it, and occurs once."""
    names: dict[str, int] = {}
    try:
        with existing(path).open(encoding="utf-8-sig") as file:
            for line, text in enumerate(file, 1):
                if not text.strip():
                    continue
                name, _, label = text.strip().replace("\t", " ").rpartition(" ")
                name = name.strip()
                if not name or not label.isdecimal() or len(label) > 9:
                    raise DataError(f"{shown(path)}, line {line}: is not of the form `name label`; fetch it again")
                if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\0" in name:
                    raise DataError(f"{shown(path)}, line {line}: {name!r} lies outside the folder; fetch it again")
                if name in names:
                    raise DataError(f"{shown(path)}, line {line}: {name!r} is listed twice; fetch it again")
                names[name] = int(label)
    except UnicodeDecodeError:
        raise DataError(f"{shown(path)}: is not text; give the list of labels as published") from None
    except OSError as error:
        raise DataError(f"{shown(path)}: cannot be read ({error}); fetch it again") from None
    if not names:
        raise DataError(f"{shown(path)}: lists no picture; fetch it again")
    return list(names), list(names.values())
