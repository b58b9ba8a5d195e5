"""Poisoned sources: an option of every run, to see which method notices wrong labels."""

from __future__ import annotations

from dataclasses import dataclass

from galafed.bounds import share


@dataclass(frozen=True, kw_only=True)
class Poison:
    """Sources with wrong labels: class c becomes c + 1, and the last class the first."""

    sources: tuple[str, ...] = ()
    share: float = 0.5
    """Of the labels of each of these sources."""

    def __post_init__(self) -> None:
        share("share", self.share)
