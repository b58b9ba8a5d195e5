"""Checking a benchmark as it will be used: counts, checksums, class histograms, no test image trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from galafed.benchmarks.base import Benchmark, Domain, Progress, Split
from galafed.errors import DataError
from galafed.lazy import numpy

LEAKS = {
    "identical_images": "test images are pixel by pixel among the training images",
    "test_bases_in_train": "test images are made from base images of training images",
}


def verify(benchmark: Benchmark, progress: Progress) -> dict[str, Any]:
    """Every domain's facts and what is wrong with it; `sound` is true where nothing is wrong anywhere."""
    domains = {}
    for number, name in enumerate(benchmark.domains):
        progress(name, number, len(benchmark.domains))
        domains[name] = verify_domain(benchmark, name)
    progress("", len(benchmark.domains), len(benchmark.domains))
    return {
        "benchmark": benchmark.name,
        "classes": list(benchmark.classes),
        "sound": not any(domain["wrong"] for domain in domains.values()),
        "domains": domains,
    }


def verify_domain(benchmark: Benchmark, name: str) -> dict[str, Any]:
    """The facts of one domain; a domain that cannot be loaded is wrong, and the others are still looked at."""
    try:
        domain = benchmark.load(name)
        told, bases = benchmark.facts(name), benchmark.bases(name)
    except DataError as error:
        return {"note": "", "tested_on_training_images": False, "wrong": [str(error)]}
    same = domain.train is domain.test or bool(told.get("test_is_train"))
    record: dict[str, Any] = {"note": domain.note, "tested_on_training_images": same}
    wrong: list[str] = []
    for part, split in (("train", domain.train), ("test", domain.test)):
        wrong += [f"{part}: {fault}" for fault in faults(split, benchmark)]
        record[part] = {
            "images": len(split),
            "histogram": _histogram(split, len(benchmark.classes)),
            "checksum": checksum(split),
        }
        expected = told.get("expected")
        if isinstance(expected, Mapping):
            expected = expected.get(part)
        if isinstance(expected, int) and expected != len(split) and not domain.note:
            wrong.append(f"{part}: {len(split)} images, {expected} expected")
    record["leakage"] = {} if same else dict(told.get("leakage") or leakage(domain, bases))
    if bases is not None:
        # Where base images are numbered, those numbers tell leaks; two fonts may well draw the same picture.
        record["look_alikes"] = record["leakage"].pop("identical_images", 0)
    wrong += [f"{count} {LEAKS.get(kind, kind)}" for kind, count in record["leakage"].items() if count]
    return record | {"facts": dict(told), "wrong": wrong}


def faults(split: Split, benchmark: Benchmark) -> list[str]:
    """What is wrong with the form of a split: shapes, types, labels."""
    size = benchmark.image_size
    found = []
    if split.images.shape != (len(split.labels), size, size, 3) or split.images.dtype != numpy.uint8:
        found.append(f"images are {split.images.dtype} {list(split.images.shape)}, not uint8 [n, {size}, {size}, 3]")
    if not len(split.labels):
        found.append("there are no images")
    elif split.labels.min() < 0 or split.labels.max() >= len(benchmark.classes):
        low, high = split.labels.min(), split.labels.max()
        found.append(f"labels go from {low} to {high}; accepted are 0 to {len(benchmark.classes) - 1}")
    return found


def checksum(split: Split) -> str:
    """SHA-256 of images and labels: equal where a benchmark was built alike."""
    digest = hashlib.sha256()
    # In pieces: the images may be a mapping of a file larger than the memory.
    for start in range(0, len(split), 1024):
        digest.update(numpy.ascontiguousarray(split.images[start : start + 1024]).tobytes())
    digest.update(numpy.ascontiguousarray(split.labels).tobytes())
    return digest.hexdigest()


def leakage(domain: Domain, bases: Any) -> dict[str, int]:
    """How many test images equal a training image, and come from the same base image as one, where bases are known."""
    trained = {_digest(image) for image in domain.train.images}
    found = {"identical_images": sum(_digest(image) in trained for image in domain.test.images)}
    if bases is not None:
        train, test = bases
        found["test_bases_in_train"] = int(numpy.isin(test, train).sum())
    return found


def _digest(image: Any) -> bytes:
    return hashlib.blake2b(image.tobytes(), digest_size=16).digest()


def _histogram(split: Split, classes: int) -> list[int]:
    return [int(count) for count in numpy.bincount(split.labels.clip(0), minlength=classes)]
