"""Which images there are, by domain and class, from names alone: nothing is decoded, so it takes milliseconds."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from galafed.errors import DataError
from galafed.inspection.listing import Listing, few, printable, same_but_for_case
from galafed.readers import csv_paths, folders
from galafed.readers.base import shown
from galafed.readers.listed import SPLITS, Listed
from galafed.readers.pictures import SUFFIXES

RESERVED = "pooled"
"""The name under which central methods put all sources together; a domain may not have it."""

PARTS = (*SPLITS, "val", "valid", "validation", "training", "testing")
"""Names of folders that are hardly ever those of domains or of classes."""


def list_images(path: Path, classes: Sequence[str] = ()) -> Listing:
    """The images of a folder `domain/class/*`, `domain/{train,test}/class/*`, or of a CSV path,label,domain[,split].

    With `classes`, a label outside them is a problem.
    """
    path = path.expanduser().absolute()
    if shown(path) != str(path):
        raise DataError(f"{shown(path)}: the path is no text and cannot stand in a configuration; rename the folder")
    if path.is_dir():
        listing = _from_folder(path)
    elif path.is_file():
        listing = Listing(root=path, layout="csv", entries=_named(csv_paths.list_file(path)))
    else:
        raise DataError(f"{path}: there is no such folder or file; give the folder that holds the domains, or a CSV")
    problems = (*listing.problems, *_about_domains(listing), *_about_classes(listing, classes))
    return replace(listing, problems=problems)


def _from_folder(root: Path) -> Listing:
    """The images of a folder, with what is odd about the way they lie there."""
    try:
        found = folders.list_folder(root)
    except DataError as error:
        return Listing(root=root, layout="folders", entries=(), problems=(_misplaced(root) or str(error),))
    entries = _named(found.pictures)
    problems = list(_about_empty(root, found.empty))
    holding = {picture.domain for picture in found.pictures} | {folder.parent.name for folder in found.empty}
    for domain in found.domains:
        if domain not in holding:
            loose = _holds_images(root / domain)
            what = "holds images but no class folders; sort them into" if loose else "holds no images; put them into"
            problems.append(
                f"{shown(root / domain)}: {what} {printable(domain)}/CLASS/, or remove the folder (of the "
                "target, labels are used to measure the accuracy only)"
            )
    remarks = []
    if found.ignored:
        names = few(shown(path.relative_to(root)) for path in found.ignored)
        remarks.append(f"left out, for they do not end like images or lie outside any class: {names}")
    deeper = list(_deeper({os.path.dirname(picture.path) for picture in found.pictures}))
    if deeper:
        remarks.append(
            f"left out, for they are folders inside class folders: {few(shown(p.relative_to(root)) for p in deeper)}"
        )
    return Listing(root=root, layout="folders", entries=entries, problems=tuple(problems), remarks=tuple(remarks))


def _about_empty(root: Path, empty: Sequence[Path]) -> Iterator[str]:
    """Why class folders hold no images: a third part beside train and test, images one folder too deep, or nothing."""
    parts = {folder.parent for folder in empty if folder.name.casefold() in PARTS}
    deep = [folder for folder in empty if folder.parent not in parts and any(map(_holds_images, _deeper([folder])))]
    bare = [folder for folder in empty if folder.parent not in parts and folder not in deep]
    for domain in sorted(parts):
        yield (
            f"{shown(domain)}: has other folders beside 'train' and 'test', so that all would be taken for classes; "
            "move the others (a 'val' folder, for example) away"
        )
    if deep:
        names = few(shown(folder.relative_to(root)) for folder in deep)
        yield f"{root}: the images in {names} lie one folder too deep; the order is DOMAIN/CLASS/image: move them up"
    if bare:
        names = few(shown(folder.relative_to(root)) for folder in bare)
        yield f"{root}: no images in {names}; put images there, or remove the empty folders"


def _holds_images(folder: Path) -> bool:
    return any(path.suffix.lower() in SUFFIXES for path in folder.iterdir())


def _misplaced(root: Path) -> str:
    """Why a folder that holds images shows none of them as DOMAIN/CLASS/image, if that can be told."""
    inside = sorted(path for path in root.iterdir() if not path.name.startswith("."))
    if any(path.suffix.lower() in SUFFIXES for path in inside if path.is_file()):
        return (
            f"{root}: holds images but no domains; sort them into DOMAIN/CLASS/ folders, or give a CSV with the "
            "columns path,label,domain"
        )
    holding = [folder for folder in inside if folder.is_dir() and _holds_images(folder)]
    if not holding:
        return ""
    return (
        f"{root}: looks like one domain with the classes {few(printable(folder.name) for folder in holding)}; put it "
        f"and the other domains into one folder and give that: FOLDER/{root.name}/{printable(holding[0].name)}/*.png"
    )


def _deeper(folders_with_images: Iterable[str | Path]) -> Iterator[Path]:
    """Folders that lie inside class folders."""
    for folder in sorted(map(str, folders_with_images)):
        with os.scandir(folder) as entries:
            yield from (Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _named(pictures: Iterable[Listed]) -> tuple[Listed, ...]:
    """The images with names in one Unicode form: some systems store "é" as two characters."""
    forms: dict[str, str] = {}
    named = []
    for picture in pictures:
        for name in (picture.domain, picture.label):
            if name not in forms:
                forms[name] = unicodedata.normalize("NFC", printable(name).strip())
        domain, label = forms[picture.domain], forms[picture.label]
        same = (domain, label) == (picture.domain, picture.label)
        named.append(picture if same else replace(picture, domain=domain, label=label))
    return tuple(named)


def _about_domains(listing: Listing) -> Iterator[str]:
    """What is wrong with the domains."""
    domains, root = listing.domains, listing.root
    if domains and all(domain.casefold() in PARTS for domain in domains):
        yield f"{root}: has {few(domains)} at the top; the domains come first: DOMAIN/train/CLASS/*.png"
    elif len(domains) == 1:
        yield (
            f"{root}: has one domain only, {domains[0]!r}; at least two are needed, one of them the target. "
            f"If {domains[0]!r} itself holds the domains, give that folder"
        )
    for names in same_but_for_case(domains):
        yield f"{root}: the domains {' and '.join(names)} differ in case only; give them one name, or two"
    for name in domains:
        if re.search(r"[/\\\x00-\x1f]", name) or name in (".", "..", RESERVED):
            yield f"{root}: a domain cannot be called {name!r}; rename it"
    parts: dict[str, set[str]] = {domain: set() for domain in domains}
    for entry in listing.entries:
        parts[entry.domain].add(entry.split)
    for domain, found in parts.items():
        if found not in ({""}, set(SPLITS)):
            which = "only some images have a split" if "" in found else f"there are {found.pop()} images only"
            yield (
                f"{root}: of domain {domain!r} {which}; give it both train and test, or no split at all to have the "
                "test images drawn"
            )


def _about_classes(listing: Listing, classes: Sequence[str]) -> Iterator[str]:
    """What is wrong with the classes; where they are given, a label outside them is."""
    root, labels = listing.root, listing.classes
    if len(labels) == 1:
        yield f"{root}: has one class only, {labels[0]!r}; there is nothing to tell apart. Add another class"
    for label in labels:
        if classes and label not in classes:
            first = next(entry for entry in listing.entries if entry.label == label)
            yield (
                f"{shown(first.path)}: its label {label!r} is outside the classes {', '.join(classes)}; correct the "
                "label or the setting folder.classes"
            )
