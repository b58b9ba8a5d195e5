"""A site's own images: one domain, from a folder of classes or a CSV; at a target labels may be missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy

from galafed.benchmarks.base import Domain, Split
from galafed.benchmarks.folder import without_copies
from galafed.errors import DataError
from galafed.inspection.decoding import each, read_square
from galafed.inspection.listing import Listing, few
from galafed.inspection.splitting import mark_tests
from galafed.readers import csv_paths, folders
from galafed.readers.base import shown
from galafed.readers.listed import Listed
from galafed.readers.pictures import SUFFIXES
from galafed.sites.settings import SiteSettings

UNLABELLED = ""


def list_own(settings: SiteSettings) -> Listing:
    """The site's images from names alone; those without a class, at a target, have the label ""."""
    path = Path(settings.data)
    if path.is_dir():
        # The folder's parent is the root, so that a test image is drawn as if it lay in a folder of all domains.
        found = folders.list_domain(path)
        entries, root, layout = found.pictures, path.parent, "folders"
        loose = [file for file in found.ignored if file.parent == path and file.suffix.lower() in SUFFIXES]
        if settings.role == "target" and not entries and loose:
            entries = tuple(Listed(path=file, domain=settings.name, label=UNLABELLED) for file in loose)
    elif path.is_file():
        entries, root, layout = tuple(csv_paths.list_file(path)), path, "csv"
        entries = tuple(entry for entry in entries if entry.domain == settings.name)
    else:
        raise DataError(f"{shown(path)}: there is no such folder or file; correct data in the site's file")
    if not entries:
        want = "images, or folders of them named by class" if settings.role == "target" else "folders named by class"
        raise DataError(f"{shown(path)}: holds no images of {settings.name!r}; put {want} there")
    return Listing(root=root, layout=layout, entries=tuple(replace(e, domain=settings.name) for e in entries))


def read_domain(settings: SiteSettings, classes: Sequence[str], image_size: int) -> Domain:
    """The site's images [n, size, size, 3], with the classes numbered as all sites number them."""
    listing = list_own(settings)
    entries = listing.entries
    results = list(each([entry.path for entry in entries], lambda path: read_square(path, image_size)))
    if errors := [result for result in results if isinstance(result, DataError)]:
        raise DataError(f"{len(errors)} of its {len(entries)} images cannot be used: {few(errors)}")
    images = numpy.stack([result for result in results if not isinstance(result, DataError)])
    if entries[0].label == UNLABELLED:
        unknown = numpy.zeros(len(images), numpy.int64)
        return Domain(
            name=settings.name,
            train=Split(images=images, labels=unknown),
            test=Split(images=images[:0], labels=unknown[:0]),
        )
    numbers = {label: number for number, label in enumerate(classes)}
    for entry in entries:
        if entry.label not in numbers:
            raise DataError(
                f"{shown(entry.path)}: its class {entry.label!r} is none of the run's: {', '.join(classes)}"
            )
    labels = numpy.array([numbers[entry.label] for entry in entries], numpy.int64)
    tests = numpy.array(mark_tests(listing, entries, settings.test_share, 0), numpy.bool_)
    if not any(entry.split for entry in entries):
        tests = without_copies(images, tests)
    return Domain(
        name=settings.name,
        train=Split(images=images[~tests], labels=labels[~tests]),
        test=Split(images=images[tests], labels=labels[tests]),
    )
