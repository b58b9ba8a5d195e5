"""What every reader returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Images as published, uint8 [h, w] or [h, w, 3], one array where all have one size; labels int64 [n]."""

    images: Sequence[NDArray[np.uint8]] | NDArray[np.uint8]
    labels: NDArray[np.int64]
    classes: tuple[str, ...] = ()
    """The names of the classes, where the file tells them."""
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Other columns of a table, for example the font of a glyph."""

    def __len__(self) -> int:
        return len(self.labels)
