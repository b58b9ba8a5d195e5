"""Which images of a domain are for training and which for testing."""

from __future__ import annotations

from collections.abc import Sequence

from galafed.inspection.listing import Listing
from galafed.readers.listed import Listed
from galafed.runs.seeding import seed_for


def mark_tests(listing: Listing, entries: Sequence[Listed], share: float, seed: int) -> list[bool]:
    """True for every image of a domain that is for testing: as the user split it, else drawn.

    Drawn are, of the n images of a class, round(share · n), at least one if n > 1 and never all; the same files are
    drawn again after the folder was moved, and nearly the same after images were added.
    """
    if any(entry.split for entry in entries):
        return [entry.split == "test" for entry in entries]
    by_class: dict[str, list[int]] = {}
    for number, entry in enumerate(entries):
        by_class.setdefault(entry.label, []).append(number)
    mask = [False] * len(entries)
    for members in by_class.values():
        # Every file draws its own number, so that one file more leaves the others where they were.
        drawn = sorted(members, key=lambda number: seed_for("folder", "split", seed, listing.name(entries[number])))
        wanted = max(round(share * len(members)), 1)
        for number in drawn[: min(wanted, len(members) - 1)]:
            mask[number] = True
    return mask
