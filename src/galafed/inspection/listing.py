"""What a listing of a user's images is, and the words for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from galafed.readers.base import shown
from galafed.readers.listed import Listed, natural


@dataclass(frozen=True, kw_only=True)
class Listing:
    """All images of a folder or CSV. `problems` keep it from being used; `remarks` only want to be known."""

    root: Path
    layout: str
    """What the images were listed from: "folders" or "csv"."""
    entries: tuple[Listed, ...]
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains, sorted."""
        return tuple(sorted({entry.domain for entry in self.entries}, key=natural))

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of all domains together, sorted; numbers by value."""
        return tuple(sorted({entry.label for entry in self.entries}, key=natural))

    def of(self, domain: str) -> tuple[Listed, ...]:
        """The images of one domain."""
        return tuple(entry for entry in self.entries if entry.domain == domain)

    def name(self, entry: Listed) -> str:
        """A file's name relative to the folder, or to the folder of the CSV: the same wherever that is moved to."""
        base = self.root if self.layout == "folders" else self.root.parent
        path = entry.path
        return shown(path.relative_to(base) if path.is_relative_to(base) else path)


def same_but_for_case(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of names that only their case tells apart."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.casefold(), []).append(name)
    return [tuple(map(repr, group)) for group in groups.values() if len(group) > 1]


def few(names: Iterable[object], most: int = 5) -> str:
    """The first names of a list, and how many more there are."""
    every = [str(name) for name in names]
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more} more" if more > 0 else "")


def printable(text: object) -> str:
    """A text that can be printed: bytes of a file name that are no text become question marks."""
    return str(text).encode("utf-8", "replace").decode()
