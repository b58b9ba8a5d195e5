"""Arrays kept on disk between runs: written whole or not at all, believed only if their checksums agree."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from galafed.errors import DataError, SaveError
from galafed.lazy import numpy
from galafed.runs.files import sync_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

MANIFEST = "manifest.json"
ABANDONED_SECONDS = 24 * 3600
"""A temporary folder older than this was left by a process that died."""

ATTEMPTS = 100
"""To put a folder in place while other processes do the same; one is enough nearly always."""

log = logging.getLogger(__name__)


class StoreMissing(DataError):
    """Nothing has been stored there yet."""


class StoreDamaged(DataError):
    """What is stored there is incomplete, altered or unreadable; building it again is the remedy."""


def cache_folder() -> Path:
    """Where built benchmarks are kept: `$GALAFED_CACHE`, else the user's cache folder."""
    chosen = os.environ.get("GALAFED_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("galafed"))


class ArrayStore:
    """Named arrays of any shape in one folder: a `.npy` file each, and a manifest with their checksums."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, arrays: Mapping[str, NDArray[Any]], info: Mapping[str, Any]) -> None:
        """Replace whatever is in the folder, at once; `info` is anything JSON can hold."""
        parent = self.folder.parent
        temporary = parent / f".{self.folder.name}.{uuid.uuid4().hex}"
        try:
            parent.mkdir(parents=True, exist_ok=True)
            self._sweep_abandoned()
            temporary.mkdir()
            entries = {name: _write(temporary, name, array) for name, array in arrays.items()}
            body = {"info": dict(info), "arrays": entries}
            manifest = json.dumps({"checksum": _checksum(body), **body}, indent=1)
            _write_synced(temporary / MANIFEST, manifest.encode())
            sync_folder(temporary)
            self._put_in_place(temporary, manifest)
            sync_folder(parent)
        except OSError as error:
            raise SaveError(
                f"{self.folder} could not be written ({error.strerror or error}); "
                "free some space there or set GALAFED_CACHE to another folder."
            ) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def load(self, name: str, *, mmap: bool = False) -> NDArray[Any]:
        """The array called `name`, checked; with `mmap` it is read-only and stays on disk."""
        entry = self._manifest()["arrays"].get(name)
        path = self.folder / f"{name}.npy"
        if entry is None:
            raise self._damaged(f"it has no array {name!r}")
        try:
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != entry["sha256"]:
                    raise self._damaged(f"{path.name} has changed")
                file.seek(0)
                # A mapping cannot be made from an open file, hence the second opening.
                source = path if mmap else file
                array = numpy.load(source, mmap_mode="r" if mmap else None, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise self._damaged(f"{path.name}: {error}") from error
        return array  # type: ignore[no-any-return]

    def names(self) -> tuple[str, ...]:
        """The names of the stored arrays, in the order they were saved."""
        return tuple(self._manifest()["arrays"])

    def info(self) -> dict[str, Any]:
        """What was saved beside the arrays."""
        return dict(self._manifest()["info"])

    def checksum(self) -> str:
        """One checksum of all that is stored, without reading the arrays."""
        return str(self._manifest()["checksum"])

    def verify(self) -> None:
        """Read every array; raises `StoreMissing` or `StoreDamaged` unless all is as it was saved."""
        for name in self.names():
            self.load(name, mmap=True)

    def _manifest(self) -> dict[str, Any]:
        path = self.folder / MANIFEST
        try:
            manifest = json.loads(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError) as error:
            if self.folder.is_dir():
                raise self._damaged(f"{MANIFEST} is missing") from error
            raise StoreMissing(f"nothing is stored in {self.folder}.") from error
        except (OSError, ValueError) as error:
            raise self._damaged(f"{MANIFEST}: {error}") from error
        if not isinstance(manifest, dict) or manifest.pop("checksum", None) != _checksum(manifest):
            raise self._damaged(f"{MANIFEST} has changed")
        return {"checksum": _checksum(manifest), **manifest}

    def _damaged(self, why: str) -> StoreDamaged:
        return StoreDamaged(f"{self.folder} is damaged: {why}. Remove the folder to have it built again.")

    def _put_in_place(self, temporary: Path, manifest: str) -> None:
        """Move the finished folder into place, whoever else is doing the same."""
        for _ in range(ATTEMPTS):
            try:
                os.replace(temporary, self.folder)
                return
            except OSError as error:
                # A folder that is not empty is not replaced. If another process was quicker, its copy serves.
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
            with contextlib.suppress(DataError, OSError):
                if (self.folder / MANIFEST).read_bytes() == manifest.encode():
                    self.verify()
                    return
            aside = self.folder.parent / f".{self.folder.name}.{uuid.uuid4().hex}"
            with contextlib.suppress(FileNotFoundError):  # another process may have moved it first
                os.replace(self.folder, aside)
            _remove(aside)
        raise OSError("other processes keep writing to it")

    def _sweep_abandoned(self) -> None:
        for path in self.folder.parent.glob(f".{self.folder.name}.*"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                    _remove(path)


class CachedArrays:
    """Arrays by name: from the store while it is sound, else built, and saved if that is possible."""

    def __init__(
        self, store: ArrayStore, build: Callable[[], dict[str, NDArray[Any]]], info: Mapping[str, Any]
    ) -> None:
        self._store = store
        self._build = build
        self._info = info
        self._built: dict[str, NDArray[Any]] | None = None

    def __getitem__(self, name: str) -> NDArray[Any]:
        if self._built is None:
            try:
                if self._store.info() == self._info:
                    return self._store.load(name)
            except StoreMissing:
                pass
            except StoreDamaged as error:
                log.warning("%s It is being built again.", error)
            self._built = self._build()
            try:
                self._store.save(self._built, self._info)
            except SaveError as error:
                log.warning("%s Working from memory.", error)
        return self._built[name].copy()


def recipe(*sources: str | Path) -> str:
    """A fingerprint of the program text, files or folders, that arrays are made by: another text, other arrays."""
    files = sorted(
        file for source in map(Path, sources) for file in (source.glob("*.py") if source.is_dir() else [source])
    )
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _write(folder: Path, name: str, array: NDArray[Any]) -> dict[str, Any]:
    """Write one array of any shape and return its entry in the manifest."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
        raise ValueError(f"{name!r} cannot be the name of a stored array")
    path = folder / f"{name}.npy"
    with path.open("wb") as file:
        numpy.save(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"sha256": digest, "shape": list(array.shape), "dtype": str(array.dtype)}


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
