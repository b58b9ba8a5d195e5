"""Replies that wait in files: a server with many sites holds in memory what it is adding up, and no more."""

from __future__ import annotations

import weakref
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

NOT_READ: Any = None


class SpoolFile:
    """A file that goes away with the last state that is read from it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        weakref.finalize(self, path.unlink, missing_ok=True)


class Spooled(dict[str, Tensor]):
    """A state whose tensors are read when they are asked for and not kept.

    It is a dict, as states are; overriding `__iter__` makes every way of copying it ask for its values.
    """

    def __init__(self, file: SpoolFile, part: str, outline: Mapping[str, Tensor]) -> None:
        super().__init__(dict.fromkeys(outline, NOT_READ))
        self.outline = outline
        """Tensors without numbers, which tell shapes and kinds."""
        self._file = file
        self._part = part

    def __getitem__(self, name: str) -> Tensor:
        if name not in self:
            raise KeyError(name)
        with safe_open(self._file.path, framework="pt") as file:
            tensor: Tensor = file.get_tensor(f"{self._part}|{name}").clone()
        return tensor

    def rows(self, name: str, rows: slice) -> Tensor:
        """Some rows of a tensor, and nothing else of it."""
        with safe_open(self._file.path, framework="pt") as file:
            found: Tensor = file.get_slice(f"{self._part}|{name}")[rows].clone()
        return found

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - that is what this defines

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def items(self) -> ItemsView[str, Tensor]:  # type: ignore[override]
        return ItemsView(self)

    def values(self) -> ValuesView[Tensor]:  # type: ignore[override]
        return ValuesView(self)

    def copy(self) -> dict[str, Tensor]:
        return {name: self[name] for name in self}

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None
