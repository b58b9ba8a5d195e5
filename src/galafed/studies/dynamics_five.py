"""Accuracy over rounds on Digit-Five, GALA against FACT, with the spread over seeds."""

from __future__ import annotations

from typing import ClassVar

from galafed.digits.domains import DIGIT_FIVE
from galafed.reproduction.curves import CurvesStudy
from galafed.studies.base import studies
from galafed.studies.digit_five import DigitFiveStudy


@studies.register("dynamics-five")
class DynamicsFiveStudy(CurvesStudy):
    """The five targets."""

    title: ClassVar[str] = "Accuracy over rounds, Digit-Five (the paper has this figure of Digit-18 alone)"
    source = DigitFiveStudy
    rows = ("FACT", "GALA")
    columns = DIGIT_FIVE
