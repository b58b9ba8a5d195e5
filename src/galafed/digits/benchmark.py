"""What Digit-Five and Digit-18 have in common: domains prepared once, kept side by side, and mapped from disk."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from galafed import transforms
from galafed.benchmarks.base import Benchmark, Domain, Progress, Split
from galafed.benchmarks.store import StoreDamaged, StoreMissing, cache_folder, recipe
from galafed.digits import building
from galafed.digits.domains import COUNTS, DERIVED, REGENERATED, STAND_IN, base_of
from galafed.digits.mapped import MappedStore
from galafed.digits.recipes import RECIPES, Name
from galafed.digits.sources import PARTS, Origin, origin
from galafed.errors import ConfigError, DataError, SaveError
from galafed.lazy import numpy
from galafed.registry import unknown

if TYPE_CHECKING:
    from numpy.typing import NDArray

CACHE = "digits"

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class DigitSettings:
    """What the files at hand leave open."""

    syn: Name = "legible"
    """How syn is drawn where it cannot be had: about as hard as the published set, or by likeness to SVHN alone."""
    usps: Literal["shuffled", "original"] = "shuffled"
    """usps divided anew, with as many train images as in the file of FACT's code; or as it was published."""


class DigitBenchmark(Benchmark):
    """Domains of 32x32 colour digits; a domain is prepared when it is first needed, or all by `prepare`."""

    family = "digits"
    Settings: ClassVar[type] = DigitSettings
    classes = tuple("0123456789")
    image_size = building.SIZE
    default_target = "mnistm"
    network = "digit_cnn"
    counts: Mapping[str, int] = COUNTS
    xs_gray = True

    def load(self, domain: str) -> Domain:
        """Train and test images [n, 32, 32, 3] of one domain, read from disk as they are used."""
        arrays, info = self._arrays(domain)
        train, test = (Split(images=arrays[f"{p}.images"], labels=numpy.array(arrays[f"{p}.labels"])) for p in PARTS)
        return Domain(name=domain, train=train, test=test, note=info["note"])

    def prepare(self, progress: Progress) -> None:
        """Make every domain that is missing, damaged or made from other files than those at hand."""
        total = len(self.domains)
        for count, domain in enumerate(self.domains):
            progress(domain, count, total)
            try:
                self._ready(domain)
            except SaveError as error:
                raise DataError(f"{error} What was prepared before is kept: prepare again to go on.") from error
        progress(self.domains[-1], total, total)

    def notes(self) -> Mapping[str, str]:
        """What must be said of every domain wherever it is shown; costs a look at the files, no image is read."""
        return {domain: self._note(domain) for domain in self.domains}

    def missing(self) -> Mapping[str, str]:
        """Of every domain that is neither prepared nor can be: which files it lacks and where to get them."""
        found: dict[str, str] = {}
        for domain in self.domains:
            try:
                origin(domain)
            except DataError as error:
                if not self._is_stored(domain):
                    found[domain] = str(error)
        return found

    def bases(self, domain: str) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
        """The number of the raw image behind every train image and every test image."""
        arrays, _ = self._arrays(domain)
        return numpy.array(arrays["train.bases"]), numpy.array(arrays["test.bases"])

    def facts(self, domain: str) -> dict[str, Any]:
        """Counts, class histograms, checksums, origin and leakage of a domain; every stored byte is checked."""
        self._ready(domain)
        store = self.store(domain)
        store.verify()
        arrays, info = store.map_all(), store.info()
        train, test = (_histogram(arrays[f"{part}.labels"]) for part in PARTS)
        return {
            "train": len(arrays["train.labels"]),
            "test": len(arrays["test.labels"]),
            "histogram": train,
            "test_histogram": test,
            "image": list(arrays["train.images"].shape[1:]),
            "note": info["note"],
            "base": base_of(domain),
            "sources": info["sources"],
            "checksum": store.checksum(),
            "leakage": self._leakage(domain, arrays),
        }

    def store(self, domain: str) -> MappedStore:
        """Where a domain is kept once it is prepared; both benchmarks share it."""
        if domain not in self.domains:
            raise ConfigError(unknown("domain", domain, self.domains))
        return self._store(domain)

    def _store(self, domain: str) -> MappedStore:
        """A folder for each way to make a domain."""
        coloured = domain in DERIVED and DERIVED[domain][1] == "small" and not self.xs_gray
        made = {"syn": f"-{self.settings.syn}", "usps": f"-{self.settings.usps}"}.get(base_of(domain), "")
        return MappedStore(cache_folder() / CACHE / f"{domain}{made}{'-colour' if coloured else ''}")

    def _arrays(self, domain: str) -> tuple[Mapping[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and info of a domain; from memory, with a warning, where they cannot be kept."""
        if domain not in self.domains:
            raise ConfigError(unknown("domain", domain, self.domains))
        try:
            self._ready(domain)
        except SaveError as error:
            log.warning("%s Working from memory.", error)
            source = origin(domain)
            return self._build(domain, source), _info(domain, source)
        return self._store(domain).map_all(), self._store(domain).info()

    def _ready(self, domain: str) -> None:
        """Prepare a domain unless it is there, sound, and made from the files at hand."""
        store = self._store(domain)
        try:
            source, lack = origin(domain), None
        except DataError as error:
            source, lack = None, error
        try:
            stored = store.info()
            store.map_all()
            # Raw files may be removed once a domain is prepared, but other files mean other images.
            if source is None or stored == _info(domain, source):
                return
        except StoreMissing:
            pass
        except StoreDamaged as error:
            log.warning("%s It is being built again.", error)
        if source is None:
            raise lack or DataError(domain)
        store.save(self._build(domain, source), _info(domain, source))

    def _build(self, domain: str, source: Origin) -> building.Arrays:
        if domain in DERIVED:
            return building.derived(domain, self._base(base_of(domain)), source, xs_gray=self.xs_gray)
        if source.note == REGENERATED:
            return building.regenerated(source.found[0], source.found[1], RECIPES[self.settings.syn], self.counts)
        if domain == "ardis2" and source.note == STAND_IN:
            return building.papered(self._base("ardis"))
        if domain == "usps" and self.settings.usps == "shuffled":
            return building.shuffled(domain, source.found[0])
        return building.published(domain, source.found[0], self.counts)

    def _base(self, base: str) -> Mapping[str, NDArray[Any]]:
        """The arrays of another domain, which is prepared first if need be."""
        try:
            self._ready(base)
        except SaveError:
            return self._build(base, origin(base))
        return self._store(base).map_all()

    def _is_stored(self, domain: str) -> bool:
        try:
            self._store(domain).info()
        except (StoreMissing, StoreDamaged):
            return False
        return True

    def _note(self, domain: str) -> str:
        try:
            return origin(domain).note
        except DataError:
            return str(self._store(domain).info()["note"]) if self._is_stored(domain) else ""

    def _leakage(self, domain: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, int]:
        """How many raw images are on both sides, and how many test images equal a train image pixel by pixel."""
        below = self._store(base_of(domain))
        base = below.map_all() if base_of(domain) != domain and self._is_stored(base_of(domain)) else arrays
        train, test = arrays["train.bases"], arrays["test.bases"]
        digests = {hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in arrays["train.images"]}
        same = [hashlib.blake2b(image.tobytes(), digest_size=16).digest() in digests for image in arrays["test.images"]]
        return {
            "test_bases_in_train": int(numpy.isin(test, train).sum()),
            "test_bases_in_train_of_base": int(numpy.isin(test, base["train.bases"]).sum()),
            "train_bases_in_test_of_base": int(numpy.isin(train, base["test.bases"]).sum()),
            "identical_images": sum(same),
        }


def _info(domain: str, source: Origin) -> dict[str, Any]:
    made_by = recipe(Path(__file__).parent, transforms.__path__[0])
    return {"domain": domain, "note": source.note, "sources": source.files(), "recipe": made_by}


def _histogram(labels: NDArray[Any]) -> dict[str, int]:
    return {str(digit): int(count) for digit, count in enumerate(numpy.bincount(labels, minlength=10))}
