"""Pictures that lie in files of their own: what is known of each before it is decoded, and the decoding."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from galafed.errors import DataError
from galafed.lazy import numpy
from galafed.readers import pictures
from galafed.readers.base import Raw, gathered, shown

SPLITS = ("train", "test")


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One picture: its file, its domain, the name of its class, and its split ("" where none is told)."""

    path: Path
    domain: str
    label: str
    split: str = ""


def natural(name: str) -> tuple[object, ...]:
    """A sort key by which "2" comes before "10" and "a" before "B"."""
    parts = re.split(r"([0-9]+)", name)
    # Even places are text, odd ones numbers, so that two keys can always be compared; the name settles ties.
    return (*(int(part) if place % 2 else part.casefold() for place, part in enumerate(parts)), name)


def classes_of(listing: Iterable[Listed]) -> tuple[str, ...]:
    """The classes of all domains together, in natural order: a class has one number wherever it occurs."""
    return tuple(sorted({picture.label for picture in listing}, key=natural))


def renamed(listing: Iterable[Listed], names: Mapping[str, str]) -> list[Listed]:
    """The pictures of the classes in `names`, each class under the name given there; the others are left out."""
    return [replace(picture, label=names[picture.label]) for picture in listing if picture.label in names]


def decoded(listing: Sequence[Listed], classes: Sequence[str]) -> Raw:
    """Every picture of a listing, labels being places in `classes`; columns path, domain and split."""
    place = {name: number for number, name in enumerate(classes)}
    for picture in listing:
        if picture.label not in place:
            raise DataError(
                f"{shown(picture.path)}: its class {picture.label!r} is none of {', '.join(classes)}; "
                "move or remove the picture"
            )
    return Raw(
        images=gathered((pictures.read(picture.path) for picture in listing), len(listing)),
        labels=numpy.array([place[picture.label] for picture in listing], dtype=numpy.int64),
        classes=tuple(classes),
        columns={
            "path": [picture.path for picture in listing],
            "domain": [picture.domain for picture in listing],
            "split": [picture.split for picture in listing],
        },
    )
