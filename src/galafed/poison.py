"""Poisoned sources: an option of every run, to see which method notices wrong labels."""

from __future__ import annotations

from dataclasses import dataclass

from galafed.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Poison:
    """Sources with wrong labels: class c becomes c + 1, and the last class the first."""

    sources: tuple[str, ...] = ()
    share: float = 0.5
    """Of the labels of each of these sources."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(f"share = {self.share}: must be above 0 and at most 1")
