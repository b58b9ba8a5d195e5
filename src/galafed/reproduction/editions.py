"""The two editions of the digit data: how SYN is drawn where it cannot be had, and how USPS is divided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FIRST: Mapping[str, Any] = {"syn": "wild", "usps": "original"}
"""What a run of a digit benchmark sets that has the data of before."""

REDRAWN = tuple(FIRST)
"""The bases whose images the editions differ in."""


@dataclass(frozen=True)
class Edition:
    """What must be known of the digit data of a study."""

    name: str
    about: str

    @property
    def title(self) -> str:
        return f"Data of the {self.name} edition"

    def __str__(self) -> str:
        return f"{self.title}: {self.about}"


OF_FIRST = Edition(
    "first",
    "SYN by a recipe with which some digits cannot be read, and USPS as it was published, 7291 and 2007 images "
    "([digit-five-first](../digit-five-first/table.md)).",
)

OF_SECOND = Edition(
    "second",
    "SYN is drawn by a recipe that was chosen so that networks learn it about as well as the paper's oracles learn the "
    "published one, 98.7 and 97.0 %, and by labels of SVHN train images ([syn](../syn/table.md)): that the oracle "
    "agrees on SYN is no finding. No system that adapts was run to choose the recipe. USPS is divided at random into "
    "as many images as the file of FACT's and KD3A's code has, 7438 and 1860.",
)


def of_edition(settings: Mapping[str, Any]) -> Edition:
    """What a page says of its data, by what its runs set of them."""
    return OF_FIRST if settings == FIRST else OF_SECOND
