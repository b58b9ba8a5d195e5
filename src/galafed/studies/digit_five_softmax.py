"""Digit-Five trained as FACT's public code trains, on the softmax of a softmax: is that what GALA lacks?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.reproduction import published
from galafed.reproduction.accuracy import SYSTEMS, Values
from galafed.studies.base import studies
from galafed.studies.digit_five import DigitFiveStudy
from galafed.studies.sweep_second import SETTINGS, TWICE

ONCE = "GALA, softmax once"
BOTH = f"GALA, {TWICE}"


@studies.register("digit-five-softmax")
class DigitFiveSoftmaxStudy(DigitFiveStudy):
    """GALA on all five targets, next to the first seed of `digit-five`."""

    title: ClassVar[str] = "Digit-Five: GALA on the softmax of a softmax, as in FACT's code (its row of Table 1)"
    about: ClassVar[str] = (
        "The paper's code is not public and probably grew from FACT's, whose network ends in probabilities of which "
        "the losses take the softmax once more. Of all settings of the second sweep, information and entropy, which "
        f"know no labels, chose *{TWICE}*, though not accuracy ([sweep-second](../sweep-second/judged.md)). "
        f"*{ONCE}* is the first seed of the study `digit-five`."
    )
    published: ClassVar[published.Table] = dict.fromkeys((ONCE, BOTH), published.DIGIT_FIVE["GALA"])
    reference: ClassVar[str] = ONCE
    reasons: ClassVar[Mapping[str, str]] = {}
    lower_bound: ClassVar[Mapping[str, str]] = {}

    def rows(self) -> Mapping[str, Values]:
        return {ONCE: SYSTEMS["GALA"], BOTH: {**SYSTEMS["GALA"], **SETTINGS[TWICE]}}
