"""The digit data as they were at first: a harder SYN than the published one, and USPS in another division."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIRST: Mapping[str, Any] = {"syn": "wild", "usps": "original"}
"""What a run of a digit benchmark sets that has these data."""

TOLD = (
    " The data are of the first edition: a SYN with digits that nobody can read, and USPS as it was published, 7291 "
    "and 2007 images ([what has changed](../digit-five-first/table.md))."
)
