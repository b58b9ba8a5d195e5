"""Stored arrays that stay on disk and are believed after a cheap look, for a benchmark of two gigabytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from galafed.benchmarks.store import ArrayStore
from galafed.lazy import numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray


class MappedStore(ArrayStore):
    """An `ArrayStore` whose arrays can be mapped without reading them; `verify` still reads all."""

    def map(self, name: str) -> NDArray[Any]:
        """The array called `name`, read-only, on disk; its shape, type and the length of its file are checked.

        The store was written whole, checked and synced, so a wrong length shows all that a crash or a full disk can do.
        """
        entry = self._manifest()["arrays"].get(name)
        if entry is None:
            raise self._damaged(f"it has no array {name!r}")
        path = self.folder / f"{name}.npy"
        try:
            array = numpy.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise self._damaged(f"{path.name}: {error}") from error
        if list(array.shape) != entry["shape"] or str(array.dtype) != entry["dtype"]:
            raise self._damaged(f"{path.name} has another shape than it was saved with")
        if path.stat().st_size != array.offset + array.nbytes:
            raise self._damaged(f"{path.name} has another length than it was saved with")
        return array  # type: ignore[no-any-return]

    def map_all(self) -> dict[str, NDArray[Any]]:
        """Every array, mapped."""
        return {name: self.map(name) for name in self.names()}
