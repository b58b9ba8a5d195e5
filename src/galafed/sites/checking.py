"""What a site wants to know before it joins: are my images usable, can I connect, what would leave the building?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from galafed.errors import DataError, GalafedError
from galafed.flower.folder import KIT as FLOWER_KIT
from galafed.sites.policy import PARTS, TASKS, WANTED
from galafed.sites.settings import SiteSettings

WORDS = {
    "extractor": "parameters and BatchNorm statistics of the feature extractor",
    "predictor": "parameters and BatchNorm statistics of the classifier head",
    "statistics": "BatchNorm statistics of the head",
    "centroids": "the mean feature of each class, and how frequent the class is (by the model's opinion)",
    "discriminator": "parameters of a network that tells domains apart (FADA)",
    "seen": "sums over the unlabelled images: entropy and mean of the predictions",
    "tested": "how many test images there are, and how many the model got right",
    "profile": "the mean feature of each class and how far images lie from it, once at the end of a run",
    "focus": "one number for each source: how much it adds to the agreement (KD3A)",
    "gap": "one number: how loosely features cluster (FADA)",
    "bank": "FEATURES OF SINGLE IMAGES (FADA)",
}


@dataclass(frozen=True)
class Line:
    """One sentence for the reader; `problem` where it keeps the site from joining."""

    text: str
    problem: bool = False


def check_site(settings: SiteSettings) -> Iterator[Line]:
    """Everything there is to say, a sentence at a time."""
    yield Line(f"{settings.name}, a {settings.role}")
    yield from _images(settings)
    yield from _connection(settings)
    yield from _leaving(settings)


def _images(settings: SiteSettings) -> Iterator[Line]:
    if not settings.data:
        yield Line(f"images: none of its own; it has the domain {settings.name!r} of the benchmark a run names")
        return
    from galafed.inspection.measuring import Measure, measure_all
    from galafed.sites.own_images import UNLABELLED, list_own

    try:
        entries = list_own(settings).entries
    except GalafedError as error:
        yield Line(f"images: {error}", problem=True)
        return
    results = measure_all(entries, lambda what, done, total: None)
    good = [(entry, found) for entry, found in zip(entries, results, strict=True) if isinstance(found, Measure)]
    for found in [found for found in results if isinstance(found, DataError)][:5]:
        yield Line(f"images: {found}", problem=True)
    counts = Counter(entry.label for entry, _ in good)
    sides = sorted(min(found.width, found.height) for _, found in good)
    yield Line(
        f"images: {len(good)} in {settings.data}, shorter sides from {sides[0] if sides else 0} to "
        f"{sides[-1] if sides else 0} pixels"
    )
    if UNLABELLED in counts:
        yield Line("images: no labels; runs will tell no accuracy, and nothing else changes")
    else:
        yield Line("images: " + ", ".join(f"{label} {count}" for label, count in sorted(counts.items())))
        if settings.role == "target":
            yield Line(
                f"images: labels are used to test on {settings.test_share:.0%} of each class, and never to train"
            )
    copies = len(good) - len({found.digest for _, found in good})
    if copies:
        yield Line(f"images: {copies} are copies of others")


def _connection(settings: SiteSettings) -> Iterator[Line]:
    if not settings.kit:
        yield Line("connection: the file names no kit", problem=True)
        return
    from galafed.flare import connection as flare
    from galafed.flower import connection as flower

    try_connection = (flower if (Path(settings.kit) / FLOWER_KIT).exists() else flare).try_connection
    yield from (
        Line(f"connection: {text}", problem) for text, problem in try_connection(Path(settings.kit), settings.name)
    )


def _leaving(settings: SiteSettings) -> Iterator[Line]:
    allow = settings.allow
    tasks, parts = allow.tasks or TASKS[settings.role], allow.parts or PARTS
    yield Line("what would leave, at most, of a run that asks for it:")
    for part in parts:
        if _can_leave(part, settings):
            yield Line(f"  {part}: {WORDS.get(part, 'not known to this version')}")
    for task in tasks:
        if task in WANTED and not (task == "train" and settings.role == "source"):
            yield Line(f"  allowed by name: {task}: {WANTED[task]}")
    limit = f"{allow.megabytes_a_round:g} MB a round" if allow.megabytes_a_round else "no limit is set"
    yield Line(f"  how much: {limit}")
    yield Line("what never leaves: images and labels; no task sends them")


def _can_leave(part: str, settings: SiteSettings) -> bool:
    at_target = {"statistics", "seen", "tested", "profile", "focus", "gap", "discriminator"}
    return settings.role == "target" or part not in at_target
