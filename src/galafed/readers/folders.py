"""An image folder: `domain/class/picture`, also `domain/images/class/picture` and `domain/train|test/class/picture`.

The first of the two variants is how Office-31 and some copies of Office-Caltech10 come.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from galafed.errors import DataError
from galafed.readers import listed
from galafed.readers.base import Raw, shown
from galafed.readers.listed import SPLITS, Listed, natural
from galafed.readers.pictures import SUFFIXES

WRAPPERS = frozenset({"images", "image", "imgs", "img"})
"""A folder of this name, alone in a domain, only holds the classes."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What lies in an image folder, nothing decoded."""

    pictures: tuple[Listed, ...]
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    """The classes of all domains together, in natural order."""
    empty: tuple[Path, ...]
    """Class folders without a picture."""
    ignored: tuple[Path, ...]
    """Files that do not end like a picture, and pictures outside any class folder."""


def read(folder: Path, domain: str | None = None, names: Mapping[str, str] | None = None) -> Raw:
    """Every picture of the folder, or of one domain; columns path, domain and split.

    Labels are places in the classes of *all* domains. With `names` only the class folders named there are read,
    each as the class given there (for example {"back_pack": "backpack"}).
    """
    listing = list_folder(folder)
    for path in listing.empty:
        if names is None or path.name in names:
            raise DataError(f"{shown(path)}: a class without a picture; put its pictures there or remove the folder")
    chosen = list(listing.pictures) if names is None else listed.renamed(listing.pictures, names)
    classes = listed.classes_of(chosen)
    if domain is not None:
        if domain not in listing.domains:
            raise DataError(f"{shown(folder)}: has no domain {domain!r} (it has {', '.join(listing.domains)})")
        chosen = [picture for picture in chosen if picture.domain == domain]
    if not chosen:
        raise DataError(f"{shown(folder)}: holds no picture of the classes asked for; check the names of its folders")
    return listed.decoded(chosen, classes)


def list_folder(folder: Path) -> Listing:
    """Look through an image folder; it must have at least one domain with one class with one picture."""
    if not os.path.isdir(folder):  # not folder.is_dir(), which fails on a name that is too long
        raise DataError(f"{shown(folder)}: is not a folder; check the path")
    pictures: list[Listed] = []
    empty: list[Path] = []
    ignored: list[Path] = []
    domains = _folders(folder)
    for domain in domains:
        found = list_domain(domain)
        pictures += found.pictures
        empty += found.empty
        ignored += found.ignored
    if not pictures:
        raise DataError(
            f"{shown(folder)}: no picture found; expected {folder.name}/DOMAIN/CLASS/PICTURE "
            f"with pictures ending in {', '.join(sorted(SUFFIXES))}"
        )
    names = {picture.label for picture in pictures} | {path.name for path in empty}
    return Listing(
        pictures=tuple(pictures),
        domains=tuple(domain.name for domain in domains),
        classes=tuple(sorted(names, key=natural)),
        empty=tuple(empty),
        ignored=tuple(ignored),
    )


def list_domain(domain: Path) -> Listing:
    """Look through the folder of one domain."""
    pictures: list[Listed] = []
    empty: list[Path] = []
    ignored: list[Path] = []
    for split, classes in _splits(domain):
        ignored += _files(classes)
        for label in _folders(classes):
            files = _files(label)
            found = [path for path in files if path.suffix.lower() in SUFFIXES]
            pictures += [Listed(path=path, domain=domain.name, label=label.name, split=split) for path in found]
            ignored += [path for path in files if path.suffix.lower() not in SUFFIXES]
            if not found:
                empty.append(label)
    return Listing(
        pictures=tuple(pictures),
        domains=(domain.name,),
        classes=listed.classes_of(pictures),
        empty=tuple(empty),
        ignored=tuple(ignored),
    )


def _splits(domain: Path) -> Iterator[tuple[str, Path]]:
    """The folders of a domain that hold its class folders, each with the split it stands for."""
    inside = _folders(domain)
    if len(inside) == 1 and inside[0].name.lower() in WRAPPERS and _folders(inside[0]):
        domain = inside[0]
        inside = _folders(domain)
    names = {path.name.lower() for path in inside}
    if names and names <= set(SPLITS) and any(_folders(path) for path in inside):
        yield from ((path.name.lower(), path) for path in inside)
    else:
        yield "", domain


def _folders(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.is_dir()]


def _files(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if not path.is_dir()]


def _entries(folder: Path) -> list[Path]:
    """What is in a folder, in natural order, without hidden files."""
    try:
        found = [path for path in folder.iterdir() if not path.name.startswith((".", "__MACOSX"))]
    except OSError as error:
        raise DataError(f"{shown(folder)}: cannot be looked into ({error.strerror}); change its permissions") from None
    return sorted(found, key=lambda path: natural(path.name))
