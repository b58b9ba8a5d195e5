"""Digit-18: Digit-Five, ARDIS, ARDIS II and TMNIST, and what is made of them by photographs, scale and colour.

Derived domains share raw images with their base, so a labelled one can hold the images of an unlabelled target's train
split; the test splits share nothing with any train split. Disjoint train images would need more raw images than a copy
with 25000 of each domain has, and USPS and ARDIS have no more at all, hence there is no switch for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.digits.benchmark import DigitBenchmark, DigitSettings
from galafed.digits.domains import EIGHTEEN, NINETEEN


@dataclass(frozen=True, kw_only=True)
class Digit18Settings(DigitSettings):
    """Where the paper leaves a choice."""

    all_19: bool = False
    """Take all domains that the paper's lists name, ardisxs too."""
    xs_gray: bool = True
    """Turn images grey before they are made small: the paper calls SVHN-XS black-and-white."""


@benchmarks.register("digit-18")
class Digit18(DigitBenchmark):
    """Eighteen domains of 32x32 digits."""

    title: ClassVar[str] = "Digit-18: eight digit sets and ten domains made of them (32x32)"
    Settings: ClassVar[type] = Digit18Settings
    domains = EIGHTEEN
    defaults: Mapping[str, Any] = {"rounds": 100, "training.lr": 0.04, "training.batch_size": 128, "gala.tau": 1.0}

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self.domains = NINETEEN if self.settings.all_19 else EIGHTEEN
        self.xs_gray = self.settings.xs_gray
