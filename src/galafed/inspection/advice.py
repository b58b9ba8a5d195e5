"""What a user should know about their images before using them: problems, warnings and advice, in whole sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from galafed.inspection.listing import few, same_but_for_case

NEAR_EMPTY = 5
"""Fewer training and test images than this teach and measure next to nothing."""
IMBALANCE = 5
"""Times the smallest class of a domain: from here on the largest one is worth a word."""
UNEQUAL_DOMAINS = 20
STRETCHED = 2.0
TINY = 8
FEW_TESTS = 30
"""With fewer test images one image is more than three points of accuracy."""

Record = Mapping[str, Any]


def advise(record: Record) -> tuple[list[str], list[str], list[str]]:
    """Problems, warnings and advice that follow from an inspection's record."""
    warnings = [*_about_classes(record), *_about_files(record), *_about_copies(record["duplicates"])]
    return list(_problems(record)), warnings, list(_advice(record))


def _problems(record: Record) -> Iterator[str]:
    """What keeps readable-looking images from being used."""
    for name, domain in record["domains"].items():
        if not domain["images"]:
            yield f"domain {name!r}: not one of its files can be read; replace them or remove the domain"
        elif domain["train"] < 2:
            yield f"domain {name!r}: has {domain['train']} training image(s); training needs at least 2. Add images"
        elif not domain["test"]:
            yield f"domain {name!r}: has no test images, for every class has one image only. Add images"


def _about_classes(record: Record) -> Iterator[str]:
    domains = record["domains"]
    for name, domain in domains.items():
        if domain["missing"] and domain["images"]:
            yield f"{name} lacks {_classes(domain['missing'])}; it is used all the same, for the classes it has"
    for label in record["classes"]:
        having = [name for name, domain in domains.items() if domain["per_class"][label]]
        if len(having) == 1 and len(domains) > 1:
            yield f"class {label} is in {having[0]} only: with {having[0]} as the target no source can teach it"
    for name, domain in domains.items():
        present = {label: count for label, count in domain["per_class"].items() if count}
        small = [f"{label} ({count})" for label, count in present.items() if count < NEAR_EMPTY]
        if small:
            yield f"{name} has fewer than {NEAR_EMPTY} images of {few(small)}"
        if present and max(present.values()) >= IMBALANCE * min(present.values()):
            most, least = max(present, key=present.__getitem__), min(present, key=present.__getitem__)
            yield (
                f"{name} is imbalanced: {present[most]} images of {most}, {present[least]} of {least}; "
                "accuracy will mostly tell about the large classes"
            )
    for names in same_but_for_case(record["classes"]):
        yield f"the classes {' and '.join(names)} differ in case only; if they are one class, give them one name"


def _about_files(record: Record) -> Iterator[str]:
    if record["unreadable"]:
        names = few(entry["file"] for entry in record["unreadable"])
        yield f"left out, for they cannot be read: {names}"
    for name, domain in record["domains"].items():
        sizes = domain["sizes"]
        if not sizes:
            continue
        if sizes["shorter_side"]["least"] < TINY:
            least = sizes["shorter_side"]["least"]
            yield f"{name} has images of as few as {least} pixels a side; there is little to see in them"
        if sizes["longer_to_shorter"] > STRETCHED:
            yield (
                f"{name} has images {sizes['longer_to_shorter']:g} times as long as wide; all are stretched to squares"
            )
    counts = {name: domain["images"] for name, domain in record["domains"].items() if domain["images"]}
    if counts and max(counts.values()) > UNEQUAL_DOMAINS * min(counts.values()):
        most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        yield f"the domains differ much in size: {counts[most]} images in {most}, {counts[least]} in {least}"


def _about_copies(duplicates: Mapping[str, Sequence[Sequence[str]]]) -> Iterator[str]:
    meanings = {
        "across_domains": "in several domains (a target's test image may be a source's training image)",
        "train_and_test": "among both the training and the test images of a domain (the accuracy will be too high)",
        "other_class": "under two classes (one of the labels is wrong)",
        "repeated": "several times in one class of one domain",
    }
    for kind, meaning in meanings.items():
        groups = duplicates[kind]
        if groups:
            yield f"the same image {meaning}, {len(groups)} found, for example {' = '.join(groups[0][:3])}"


def _advice(record: Record) -> Iterator[str]:
    settings, domains = record["recommended"], record["domains"]
    if not settings:
        return
    yield (
        f"the target is {settings['target']} to begin with: any domain can be; its labels are used to measure only. "
        "Choose another with --target"
    )
    tests = domains[settings["target"]]["test"]
    if tests < FEW_TESTS:
        yield f"{settings['target']} has {tests} test images: accuracies will be coarse, compare several seeds"
    drawn = [name for name, domain in domains.items() if domain["split"] == "drawn"]
    if drawn:
        yield (
            f"a quarter of each class is set aside for testing in {few(drawn)}; to split them yourself, make "
            "DOMAIN/train/CLASS and DOMAIN/test/CLASS, or a column split"
        )
    size = settings["folder.image_size"]
    sides = [d["sizes"]["shorter_side"]["median"] for d in domains.values() if d["sizes"]]
    if max(sides) > 2 * size:
        yield (
            f"images are shrunk to {size}x{size} for the small network; for photographs, a pretrained network at full "
            "size sees more: --set network=efficientnet_lite0 --set folder.image_size=224"
        )
    if len(domains) == 2:
        yield "with one source only, its images are dealt to two clients; a third domain would help more"


def _classes(labels: Sequence[str]) -> str:
    return f"the class {labels[0]}" if len(labels) == 1 else f"{len(labels)} classes: {few(labels)}"
