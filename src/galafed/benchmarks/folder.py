"""A user's own images, from folders `domain/class/*` or a CSV: any number of domains, classes, sizes and kinds."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from galafed.benchmarks.base import Benchmark, Domain, Progress, Split, benchmarks
from galafed.benchmarks.store import ArrayStore, StoreDamaged, StoreMissing, cache_folder
from galafed.bounds import at_least
from galafed.errors import ConfigError, DataError, SaveError
from galafed.inspection.decoding import each, header, read_square
from galafed.inspection.listing import few
from galafed.inspection.scanning import list_images
from galafed.inspection.splitting import mark_tests
from galafed.lazy import numpy
from galafed.readers.listed import Listed
from galafed.registry import unknown

if TYPE_CHECKING:
    from numpy.typing import NDArray

CACHE = "folder-v1"
"""Raise the number with any change that alters a decoded image, or old caches would be taken for new ones."""

SIZES = (16, 32, 64)
"""Sizes to choose from: larger ones want a pretrained network, which the user has to name."""

LOOKED_AT = 64
"""How many images are looked at to choose a size."""

MANY_IMAGES = 20_000
"""From here on the paper's network of 25.7 M parameters is worth its time at 32x32; below, the small one is."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class FolderSettings:
    """Where the images are, and how they are read."""

    path: str = ""
    """A folder DOMAIN/CLASS/* or DOMAIN/{train,test}/CLASS/*, or a CSV with the columns path,label,domain[,split]."""
    image_size: int = 0
    """Images are stretched to this many pixels a side; 0 takes the nearest of 16, 32 and 64 that loses little."""
    test_share: float = 0.25
    """Of each class, in domains that are not split already."""
    split_seed: int = 0
    """Another number draws other test images."""
    classes: tuple[str, ...] = ()
    """The classes in the order of their numbers; all that are found, sorted, if empty."""
    unreadable: Literal["refuse", "skip"] = "refuse"
    """What to do about files that cannot be decoded."""

    def __post_init__(self) -> None:
        if self.image_size and not 8 <= self.image_size <= 1024:
            raise ConfigError(f"image_size = {self.image_size}: must be 0 (choose) or from 8 to 1024")
        at_least("split_seed", self.split_seed, 0)
        if not 0 < self.test_share < 1:
            raise ConfigError(f"test_share = {self.test_share}: must lie between 0 and 1")
        if self.classes and len(set(self.classes)) < max(len(self.classes), 2):
            raise ConfigError("classes: name at least two, each once")


@benchmarks.register("folder")
class Folder(Benchmark):
    """Your own images; `gala data inspect FOLDER` looks at them and writes the configuration."""

    title: ClassVar[str] = "your own images: a folder DOMAIN/CLASS/* or a CSV (gala data inspect FOLDER)"
    Settings: ClassVar[type] = FolderSettings
    domains: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    image_size = 0
    default_target = ""
    network = "small_cnn"

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        if not self.settings.path:
            raise ConfigError("folder.path: name the folder or CSV of your images, or let 'gala data inspect' do it")
        self.listing = list_images(Path(self.settings.path), self.settings.classes)
        if self.listing.problems:
            raise DataError("; ".join(self.listing.problems))
        self.domains = self.listing.domains
        self.classes = self.settings.classes or self.listing.classes
        self.default_target = first_complete(self.listing.entries, self.domains)
        self.image_size = self.settings.image_size or choose_size(self.listing.entries)
        self.network = choose_network(self.image_size, len(self.listing.entries))
        self.defaults: Mapping[str, Any] = recommended(self.network, self.listing.entries)

    def load(self, domain: str) -> Domain:
        """The images of a domain [n, size, size, 3]; of a drawn split, copies of one image are all on one side."""
        if domain not in self.domains:
            raise ConfigError(unknown("domain", domain, self.domains))
        return self._load(domain, lambda what, done, total: None)

    def prepare(self, progress: Progress) -> None:
        """Decode what is not in the cache, or has changed since."""
        for domain in self.domains:
            self._load(domain, progress)

    def _load(self, domain: str, progress: Progress) -> Domain:
        every = self.listing.of(domain)
        images, readable = self._decoded(domain, every, progress)
        entries = [entry for entry, good in zip(every, readable, strict=True) if good]
        numbers = {label: number for number, label in enumerate(self.classes)}
        labels = numpy.array([numbers[entry.label] for entry in entries], numpy.int64)
        tests = numpy.array(
            mark_tests(self.listing, entries, self.settings.test_share, self.settings.split_seed), numpy.bool_
        )
        if not any(entry.split for entry in entries):
            tests = without_copies(images, tests)
        for part, count in (("training", (~tests).sum()), ("test", tests.sum())):
            if count < 1:
                raise DataError(f"{self.listing.root}: domain {domain!r} has no {part} images left; add images to it")
        return Domain(
            name=domain,
            train=Split(images=images[~tests], labels=labels[~tests]),
            test=Split(images=images[tests], labels=labels[tests]),
        )

    def _decoded(
        self, domain: str, entries: Sequence[Listed], progress: Progress
    ) -> tuple[NDArray[numpy.uint8], NDArray[numpy.bool_]]:
        """The readable images [m, size, size, 3] of n files, from the cache if no file changed; which are readable."""
        store = self.store(domain)
        fingerprint = fingerprint_of(self.listing.name(entry) + _state(entry.path) for entry in entries)
        try:
            if store.info().get("fingerprint") == fingerprint:
                readable = store.load("readable")
                if self.settings.unreadable == "skip" or readable.all():
                    return store.load("images", mmap=True), readable
        except StoreMissing:
            pass
        except StoreDamaged as error:
            log.warning("%s It is being built again.", error)
        images, readable = self._decode(domain, entries, progress)
        try:
            store.save(
                {"images": images, "readable": readable},
                {"benchmark": "folder", "domain": domain, "path": str(self.listing.root), "fingerprint": fingerprint},
            )
        except SaveError as error:
            log.warning("%s Working from memory.", error)
        return images, readable

    def _decode(
        self, domain: str, entries: Sequence[Listed], progress: Progress
    ) -> tuple[NDArray[numpy.uint8], NDArray[numpy.bool_]]:
        size = self.image_size
        images = numpy.empty((len(entries), size, size, 3), numpy.uint8)
        readable = numpy.ones(len(entries), numpy.bool_)
        errors = []
        paths = [entry.path for entry in entries]
        for number, result in enumerate(each(paths, lambda path: read_square(path, size))):
            progress(domain, number, len(entries))
            if isinstance(result, DataError):
                readable[number] = False
                errors.append(result)
            else:
                images[number] = result
        progress(domain, len(entries), len(entries))
        if errors and self.settings.unreadable == "refuse":
            raise DataError(
                f"{len(errors)} of the {len(entries)} files of domain {domain!r} cannot be used: {few(errors)}. Repair "
                'or remove them, or set folder.unreadable = "skip" to leave them out'
            )
        return images[readable], readable

    def store(self, domain: str) -> ArrayStore:
        """Where the decoded images of a domain are kept; one place for a folder, whatever changes in it."""
        key = fingerprint_of((str(self.listing.root), domain, str(self.image_size)))
        return ArrayStore(cache_folder() / CACHE / key[:16])


def first_complete(entries: Sequence[Listed], domains: Sequence[str]) -> str:
    """The first domain that has every class, else the first of all: a target to begin with."""
    classes: dict[str, set[str]] = {domain: set() for domain in domains}
    for entry in entries:
        classes[entry.domain].add(entry.label)
    most = max(map(len, classes.values()))
    return next(domain for domain in domains if len(classes[domain]) == most)


def choose_size(entries: Sequence[Listed]) -> int:
    """A size to stretch images to, from the headers of some of them."""
    step = max(1, len(entries) // LOOKED_AT)
    headers = each([entry.path for entry in entries[::step]], header)
    return choose_size_for([min(found[:2]) for found in headers if not isinstance(found, DataError)])


def choose_size_for(shorter_sides: Sequence[int]) -> int:
    """The smallest of `SIZES` that is not below the median of the images' shorter sides, or the largest."""
    side = median(shorter_sides) if shorter_sides else 0
    return next((size for size in SIZES if size >= side), SIZES[-1])


def choose_network(image_size: int, images: int) -> str:
    """The paper's network where it was made for, 32x32 and many images; else the small one, which fits any size."""
    return "digit_cnn" if image_size == 32 and images >= MANY_IMAGES else "small_cnn"


def recommended(network: str, entries: Sequence[Listed]) -> dict[str, Any]:
    """Settings to begin with: about ten batches or more a round even in the smallest domain."""
    least = min(Counter(entry.domain for entry in entries).values())
    batch_size = max((size for size in (8, 16, 32, 64, 128) if 10 * size <= least), default=8)
    return {"rounds": 30, "training.batch_size": batch_size, "training.lr": 0.01 if network == "digit_cnn" else 0.05}


def without_copies(images: NDArray[numpy.uint8], tests: NDArray[numpy.bool_]) -> NDArray[numpy.bool_]:
    """The test mask [n] less the images [n, size, size, 3] of which a copy is among the training images."""
    digests = [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images]
    trained = {digest for digest, test in zip(digests, tests, strict=True) if not test}
    return tests & numpy.array([digest not in trained for digest in digests], numpy.bool_)


def fingerprint_of(lines: Any) -> str:
    """One checksum of many texts."""
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _state(path: Path) -> str:
    """Size and time of a file, which tell that it changed without reading it."""
    try:
        state = path.stat()
    except OSError:
        return " missing"
    return f" {state.st_size} {state.st_mtime_ns}"
