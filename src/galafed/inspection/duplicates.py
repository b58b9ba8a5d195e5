"""Copies of one image in several places, by the checksum of their pixels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from galafed.inspection.listing import Listing
from galafed.readers.listed import Listed

Group = tuple[Listed, ...]


@dataclass(frozen=True)
class Duplicates:
    """Groups of equal images, sorted by what is wrong with them; a group may be in several lists."""

    across_domains: tuple[Group, ...]
    train_and_test: tuple[Group, ...]
    """Both in the training and in the test images of one domain, as the user has split it."""
    other_class: tuple[Group, ...]
    """One image under two classes."""
    repeated: tuple[Group, ...]
    """Several times in one class of one domain."""

    def to_dict(self, listing: Listing) -> dict[str, list[list[str]]]:
        """File names by kind."""
        return {
            kind: [[listing.name(entry) for entry in group] for group in getattr(self, kind)]
            for kind in ("across_domains", "train_and_test", "other_class", "repeated")
        }


def find_duplicates(entries: Iterable[tuple[Listed, str]]) -> Duplicates:
    """The groups among images with their checksums."""
    by_digest: dict[str, list[Listed]] = {}
    for entry, digest in entries:
        by_digest.setdefault(digest, []).append(entry)
    groups = [tuple(group) for group in by_digest.values() if len(group) > 1]
    return Duplicates(
        across_domains=tuple(group for group in groups if len({entry.domain for entry in group}) > 1),
        train_and_test=tuple(group for group in groups if _in_both_parts(group)),
        other_class=tuple(group for group in groups if len({entry.label for entry in group}) > 1),
        repeated=tuple(group for group in groups if len({(e.domain, e.label) for e in group}) < len(group)),
    )


def _in_both_parts(group: Group) -> bool:
    places = {(entry.domain, entry.split) for entry in group}
    return any((domain, "train") in places and (domain, "test") in places for domain, _ in places)
