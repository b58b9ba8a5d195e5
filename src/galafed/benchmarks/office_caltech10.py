"""Office-Caltech10: photographs of ten kinds of things in four domains, as FACT and the paper use them.

All images of a domain are both its train and its test images: a target is learnt from all of its images without
their labels and tested on the same ones. The paper does not say so, but its webcam accuracy of 99.8 ± 0.17 can be
had on all 295 images and on no share of 20 or 80 percent of them.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from galafed import downloads
from galafed.benchmarks.base import Benchmark, Domain, Progress, Split, benchmarks
from galafed.benchmarks.store import ArrayStore, StoreDamaged, StoreMissing, cache_folder
from galafed.bounds import at_least
from galafed.errors import ConfigError, DataError, SaveError
from galafed.lazy import numpy
from galafed.readers import pictures
from galafed.readers.base import checked_labels
from galafed.registry import unknown

if TYPE_CHECKING:
    from numpy.typing import NDArray

CACHE = "office-caltech10-v1"
"""Raise the number with any change below that alters an image, or old caches would be taken for new ones."""

COUNTS = {"amazon": 958, "caltech": 1123, "dslr": 157, "webcam": 295}
"""How many images each domain has where it is complete."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "backpack": ("backpack",),
    "bike": ("bike", "touringbike"),
    "calculator": ("calculator",),
    "headphones": ("headphones", "headphone"),
    "keyboard": ("keyboard", "computerkeyboard"),
    "laptop": ("laptop", "laptopcomputer", "laptop101"),
    "monitor": ("monitor", "computermonitor"),
    "mouse": ("mouse", "computermouse"),
    "mug": ("mug", "coffeemug"),
    "projector": ("projector", "videoprojector"),
}
"""The classes in the published order, each with its names in Office-31, Caltech-256 and the copies of the ten."""

FOLDERS = ("office_caltech10", "office_caltech_10", "OfficeCaltech10", "Office-Caltech10", "office_caltech")
"""How the folder of the four domains may be called."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class OfficeSettings:
    """How the images are made ready."""

    image_size: int = 224
    """Side of the square every image is resized to; FACT's code takes 300."""

    def __post_init__(self) -> None:
        at_least("image_size", self.image_size, 32)


@benchmarks.register("office-caltech10")
class OfficeCaltech10(Benchmark):
    """Four domains of photographs [n, 224, 224, 3]; every image is squeezed to a square, as in FACT, not cropped."""

    title: ClassVar[str] = "Office-Caltech10: photographs of ten kinds of things in four domains"
    family = "office"
    Settings: ClassVar[type] = OfficeSettings
    domains = tuple(COUNTS)
    classes = tuple(NAMES)
    image_size = OfficeSettings.image_size
    default_target = "amazon"
    network = "efficientnet_lite0_fixed"
    defaults: Mapping[str, Any] = {
        "rounds": 40,  # the paper says 500, but long before its learning rate is nothing: 0.9^40 = 0.015
        "training.schedule": "exponential",
        "training.decay": 0.9,
        "training.mixup": 0.2,
        "training.lr": 0.02,
        "training.batch_size": 128,
        "training.persistent_momentum": True,  # a phase has two to nine batches; started anew it would never build up
        "gala.tau": 1.0,
    }
    # No batch takes the scale out of its layers: at the whole rate a pretrained extractor is lost in one round.
    suited: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        f"{name}_fixed": {"training.extractor_rate": 0.1}
        for name in ("efficientnet_lite0", "efficientnet_lite2", "resnet50")
    }

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self.image_size = self.settings.image_size

    def load(self, domain: str) -> Domain:
        """All images of a domain, as its train and as its test images; read from the disk as they are needed."""
        try:
            store = self._ready(domain)
            arrays, info = {name: store.load(name, mmap=name == "images") for name in store.names()}, store.info()
        except SaveError as error:
            log.warning("%s Working from memory.", error)
            arrays, info = self._build(domain, self._origin(domain), None)
        split = Split(images=arrays["images"], labels=arrays["labels"])
        return Domain(name=domain, train=split, test=split, note=info["note"])

    def prepare(self, progress: Progress) -> None:
        """Make what is not made yet, one domain after the other."""
        for domain in self.domains:
            try:
                self._ready(domain, progress)
            except SaveError as error:
                raise DataError(f"{error} What was prepared before is kept: prepare again to go on.") from error
            progress(domain, COUNTS[domain], COUNTS[domain])

    def notes(self) -> Mapping[str, str]:
        """What must be said of a domain wherever it is shown; empty for a complete one, or one not prepared yet."""
        found = dict.fromkeys(self.domains, "")
        for domain in self.domains:
            try:
                found[domain] = str(self.store(domain).info()["note"])
            except (StoreMissing, StoreDamaged):
                continue
        return found

    def missing(self) -> Mapping[str, str]:
        """Of every domain that is neither prepared nor can be: where to get its images."""
        found: dict[str, str] = {}
        for domain in self.domains:
            if find(domain) is None:
                try:
                    self.store(domain).info()
                except (StoreMissing, StoreDamaged):
                    found[domain] = lack(domain)
        return found

    def facts(self, domain: str) -> dict[str, Any]:
        """Counts, class histogram, checksum and origin of a prepared domain."""
        store = self._ready(domain)
        labels = store.load("labels")
        histogram = numpy.bincount(labels, minlength=len(self.classes)).tolist()
        return {
            "train": len(labels),
            "test": len(labels),
            "expected": COUNTS[domain],
            "test_is_train": True,
            "histogram": dict(zip(self.classes, histogram, strict=True)),
            "checksum": store.checksum(),
            **store.info(),
        }

    def store(self, domain: str) -> ArrayStore:
        """Where a domain is kept once it is prepared."""
        if domain not in self.domains:
            raise ConfigError(unknown("domain", domain, self.domains))
        return ArrayStore(cache_folder() / CACHE / f"{domain}-{self.image_size}")

    def _ready(self, domain: str, progress: Progress | None = None) -> ArrayStore:
        """The store of a domain, built first if it is missing, damaged or made from other files."""
        store, origin = self.store(domain), find(domain)
        try:
            # The published files may be removed once a domain is prepared, but other files mean other images.
            if origin is None or store.info()["fingerprint"] == fingerprint_of(origin):
                store.verify()
                return store
        except StoreMissing:
            pass
        except StoreDamaged as error:
            log.warning("%s It is being built again.", error)
        store.save(*self._build(domain, self._origin(domain), progress))
        return store

    def _origin(self, domain: str) -> Path:
        origin = find(domain)
        if origin is None:
            raise DataError(lack(domain))
        return origin

    def _build(
        self, domain: str, origin: Path, progress: Progress | None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Images [n, s, s, 3], labels [n], and what is to be known of them."""
        from PIL import Image

        labels: list[int] = []
        size, images, small = self.image_size, [], 0
        for pixels, label in read(origin):
            if progress is not None and len(labels) % 25 == 0:
                progress(domain, min(len(labels), COUNTS[domain]), COUNTS[domain])
            picture = Image.fromarray(pixels).convert("RGB")
            small += min(picture.size) < size
            images.append(numpy.asarray(picture.resize((size, size), Image.Resampling.BILINEAR)))
            labels.append(label)
        absent = [name for number, name in enumerate(self.classes) if number not in labels]
        if absent:
            raise DataError(f"{origin}: has no image of {', '.join(absent)}; get the images of all ten classes")
        note = "" if len(labels) == COUNTS[domain] else f"{len(labels)} of {COUNTS[domain]} images"
        arrays = {"images": numpy.stack(images), "labels": numpy.asarray(labels, dtype=numpy.int64)}
        return arrays, {
            "note": note,
            "enlarged": small,
            "origin": str(origin),
            "fingerprint": fingerprint_of(origin),
        }


def find(domain: str) -> Path | None:
    """The Parquet file or the folder of a domain, however its name is spelled; None if there is none."""
    folder = downloads.find(*FOLDERS)
    if folder is None:
        return None
    parquet = folder / f"{domain}.parquet"
    if parquet.is_file():
        return parquet
    names = (domain, f"{domain}10", *(["256_ObjectCategories"] if domain == "caltech" else []))
    found = next(_children(folder, names), None)
    return found and next(_children(found, ("images",)), found)  # Office-31 has a folder "images" in between


def lack(domain: str) -> str:
    """A sentence: the images of a domain are missing, and where to get them."""
    return (
        f"the images of {domain} are missing. {downloads.where_to_get(FOLDERS[0])} Office-31 and, for caltech, "
        "Caltech-256 (https://data.caltech.edu/records/nyy15-4j048) hold the same images; folders of other classes "
        "are passed over."
    )


Picture = tuple["NDArray[numpy.uint8]", int]
"""Pixels [h, w] or [h, w, 3] with a class number, in the published order of classes."""


def read(origin: Path) -> Iterator[Picture]:
    """Every picture of a domain."""
    return _from_parquet(origin) if origin.is_file() else _from_folder(origin)


def fingerprint_of(origin: Path) -> str:
    """A checksum of a Parquet file, or of the names, sizes and times of the files in a folder."""
    if origin.is_file():
        with origin.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for path in sorted(origin.rglob("*")):
        status = path.stat()
        digest.update(f"{path.relative_to(origin)}\x1f{status.st_size}\x1f{status.st_mtime_ns}\x1e".encode())
    return digest.hexdigest()


def _from_parquet(path: Path) -> Iterator[Picture]:
    from galafed.readers import parquet

    raw = parquet.read(path)
    numbers = _numbers(path, raw.classes) if raw.classes else tuple(range(len(NAMES)))
    for pixels, label in zip(raw.images, checked_labels(path, raw.labels, len(numbers)).tolist(), strict=True):
        yield pixels, numbers[label]


def _numbers(path: Path, classes: Sequence[str]) -> tuple[int, ...]:
    """The number here of each class a file names."""
    known = {alias: number for number, aliases in enumerate(NAMES.values()) for alias in aliases}
    for name in classes:
        if _plain(name) not in known:
            raise DataError(f"{path}: names a class {name!r}; Office-Caltech10 has {', '.join(NAMES)}. Get it again")
    return tuple(known[_plain(name)] for name in classes)


def _from_folder(folder: Path) -> Iterator[Picture]:
    """The images in the folders of the ten classes; folders of other classes, as Office-31 has them, do not count."""
    for number, aliases in enumerate(NAMES.values()):
        for place in _children(folder, aliases):
            for path in sorted(place.iterdir()):
                if path.suffix.lower() in pictures.SUFFIXES and not path.name.startswith("."):
                    yield pictures.read(path), number


def _children(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """The folders in a folder that have one of the names, whatever their case, separators and leading number."""
    wanted = {_plain(name) for name in names}
    if folder.is_dir():
        yield from (path for path in sorted(folder.iterdir()) if path.is_dir() and _plain(path.name) in wanted)


def _plain(name: str) -> str:
    """`003.Back-Pack` and `back_pack` as `backpack`."""
    return re.sub(r"[\W_]", "", re.sub(r"^\d+\.", "", name)).lower()
