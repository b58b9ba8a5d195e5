"""The paper's Table 1: accuracy on each target of Digit-Five, every system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.reproduction import published
from galafed.reproduction.accuracy import SYSTEMS, AccuracyStudy, Values
from galafed.studies.base import studies


@studies.register("digit-five")
class DigitFiveStudy(AccuracyStudy):
    """Five targets, four sources each."""

    title: ClassVar[str] = "Digit-Five: every system of the paper (its Table 1)"
    about: ClassVar[str] = "The target is named on top; the four other domains are the sources."
    published = published.DIGIT_FIVE

    def rows(self) -> Mapping[str, Values]:
        return SYSTEMS

    def columns(self) -> Mapping[str, Values]:
        return {
            target: {"benchmark": "digit-five", "target": target} for target in benchmarks.get("digit-five").domains
        }
