"""Looking at a user's images: one plain record of everything there is to know before they are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from galafed.benchmarks.base import Progress
from galafed.benchmarks.folder import FolderSettings, choose_network, choose_size_for, first_complete, recommended
from galafed.errors import DataError
from galafed.inspection.advice import advise
from galafed.inspection.duplicates import find_duplicates
from galafed.inspection.listing import Listing, printable
from galafed.inspection.measuring import Measure, measure_all
from galafed.inspection.scanning import list_images
from galafed.inspection.splitting import mark_tests
from galafed.readers.base import shown
from galafed.readers.listed import Listed

Measured = tuple[Listed, Measure]


def inspect_images(path: Path, progress: Progress) -> dict[str, Any]:
    """Decode every image and describe the whole; `usable` says whether it can be run, `problems` why not."""
    listing = list_images(path)
    results = measure_all(listing.entries, progress)
    measured = [(e, r) for e, r in zip(listing.entries, results, strict=True) if isinstance(r, Measure)]
    unreadable = [(e, r) for e, r in zip(listing.entries, results, strict=True) if isinstance(r, DataError)]
    duplicates = find_duplicates((entry, found.digest) for entry, found in measured)
    record: dict[str, Any] = {
        "path": shown(listing.root),
        "layout": listing.layout,
        "images": len(measured),
        "classes": list(listing.classes),
        "domains": {domain: _domain(listing, domain, measured) for domain in listing.domains},
        "unreadable": [{"file": listing.name(entry), "reason": printable(error)} for entry, error in unreadable],
        "duplicates": duplicates.to_dict(listing),
        "recommended": _recommended(listing, measured),
    }
    problems, warnings, advice = advise(record)
    record["problems"] = [printable(problem) for problem in (*listing.problems, *problems)]
    record["warnings"] = [printable(warning) for warning in (*listing.remarks, *warnings)]
    record["advice"] = advice
    record["usable"] = not record["problems"]
    return record


def _domain(listing: Listing, domain: str, measured: Sequence[Measured]) -> dict[str, Any]:
    """Counts, sizes and modes of one domain's readable images."""
    own = [(entry, found) for entry, found in measured if entry.domain == domain]
    counts = Counter(entry.label for entry, _ in own)
    classes = listing.classes
    settings = FolderSettings()
    tests = mark_tests(listing, [entry for entry, _ in own], settings.test_share, settings.split_seed)
    drawn = not any(entry.split for entry, _ in own)
    if drawn:  # as the benchmark does: a copy of a training image is no test image
        trained = {found.digest for (_, found), test in zip(own, tests, strict=True) if not test}
        tests = [test and found.digest not in trained for (_, found), test in zip(own, tests, strict=True)]
    return {
        "images": len(own),
        "train": len(own) - sum(tests),
        "test": sum(tests),
        "split": "drawn" if drawn else "given",
        "per_class": {label: counts.get(label, 0) for label in classes},
        "missing": [label for label in classes if not counts.get(label)],
        "sizes": _sizes([found for _, found in own]),
        "modes": dict(Counter(found.mode for _, found in own).most_common()),
    }


def _sizes(found: Sequence[Measure]) -> dict[str, Any]:
    """Smallest, median and largest shorter side, how many sizes there are, and the most stretched shape."""
    if not found:
        return {}
    shorter = [min(m.width, m.height) for m in found]
    sizes = Counter((m.width, m.height) for m in found)
    return {
        "different": len(sizes),
        "most_common": list(sizes.most_common(1)[0][0]),
        "shorter_side": {"least": min(shorter), "median": median(shorter), "most": max(shorter)},
        "longer_to_shorter": round(max(max(m.width, m.height) / min(m.width, m.height) for m in found), 2),
    }


def _recommended(listing: Listing, measured: Sequence[Measured]) -> Mapping[str, Any]:
    """Settings to begin with."""
    entries = [entry for entry, _ in measured]
    if not entries:
        return {}
    size = choose_size_for([min(found.width, found.height) for _, found in measured])
    network = choose_network(size, len(entries))
    domains = tuple(domain for domain in listing.domains if any(entry.domain == domain for entry in entries))
    return {
        "target": first_complete(entries, domains),
        "network": network,
        "folder.image_size": size,
        **recommended(network, entries),
    }
