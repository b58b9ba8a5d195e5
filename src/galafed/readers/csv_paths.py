"""A CSV file with a header and the columns path, label, domain and, if wanted, split (train or test)."""

from __future__ import annotations

import csv
from pathlib import Path

from galafed.errors import DataError
from galafed.readers import listed
from galafed.readers.base import Raw, existing, shown
from galafed.readers.listed import SPLITS, Listed

NEEDED = ("path", "label", "domain")
DELIMITERS = (",", ";", "\t")


def read(path: Path, domain: str | None = None) -> Raw:
    """Every picture the file names, or those of one domain; columns path, domain and split."""
    listing = list_file(path)
    classes = listed.classes_of(listing)
    if domain is not None:
        chosen = [picture for picture in listing if picture.domain == domain]
        if not chosen:
            domains = ", ".join(sorted({picture.domain for picture in listing}))
            raise DataError(f"{shown(path)}: has no domain {domain!r} (it has {domains})")
        listing = chosen
    return listed.decoded(listing, classes)


def list_file(path: Path) -> list[Listed]:
    """The pictures that the file names, in its order, nothing decoded; relative paths start at the file's folder."""
    listing: list[Listed] = []
    labels: dict[tuple[str, Path], str] = {}
    try:
        with existing(path).open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, delimiter=_delimiter(file.readline()), strict=True)
            file.seek(0)
            _check_header(path, [str(name).strip().lower() for name in rows.fieldnames or ()])
            rows.fieldnames = [str(name).strip().lower() for name in rows.fieldnames or ()]
            for row in rows:
                picture = _checked(path, rows.line_num, row)
                if labels.setdefault((picture.domain, picture.path), picture.label) != picture.label:
                    raise DataError(
                        f"{shown(path)}, line {rows.line_num}: {shown(picture.path)} already has another label; "
                        "keep one of the two lines"
                    )
                listing.append(picture)
    except UnicodeDecodeError:
        raise DataError(f"{shown(path)}: is not UTF-8 text; save it as CSV with UTF-8 encoding") from None
    except (OSError, csv.Error) as error:
        raise DataError(f"{shown(path)}: is not a readable CSV file ({error}); save it again as CSV") from None
    if not listing:
        raise DataError(f"{shown(path)}: names no picture; add lines below its header")
    return listing


def _delimiter(header: str) -> str:
    """The delimiter that the header has most of; spreadsheets write semicolons in some countries."""
    return max(DELIMITERS, key=header.count)


def _check_header(path: Path, names: list[str]) -> None:
    missing = [name for name in NEEDED if name not in names]
    if missing:
        has = ", ".join(names) or "nothing"
        raise DataError(
            f"{shown(path)}: has no column {missing[0]!r} (it has {has}); its first line must be path,label,domain"
        )
    twice = [name for name in (*NEEDED, "split") if names.count(name) > 1]
    if twice:
        raise DataError(f"{shown(path)}: has the column {twice[0]!r} twice; remove one")


def _checked(path: Path, line: int, row: dict[str, str | None]) -> Listed:
    """One line of the file; every needed field filled, the split known, the picture there."""
    fields = {name: (row.get(name) or "").strip() for name in (*NEEDED, "split")}
    for name in NEEDED:
        if not fields[name]:
            raise DataError(f"{shown(path)}, line {line}: the field {name!r} is empty; fill it or remove the line")
    split = fields["split"].lower()
    if split not in ("", *SPLITS):
        raise DataError(f"{shown(path)}, line {line}: split {split!r} is neither train nor test; correct it")
    picture = path.parent / fields["path"]
    try:
        existing(picture)
    except DataError as error:
        raise DataError(f"{shown(path)}, line {line}: {error}") from None
    return Listed(path=picture, domain=fields["domain"], label=fields["label"], split=split)
