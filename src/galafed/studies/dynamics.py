"""Accuracy over rounds on Digit-18, GALA against FACT, with the spread over seeds."""

from __future__ import annotations

from typing import ClassVar

from galafed.reproduction.curves import CurvesStudy
from galafed.studies.base import studies
from galafed.studies.digit_18 import TARGETS, Digit18Study


@studies.register("dynamics")
class DynamicsStudy(CurvesStudy):
    """The nine targets."""

    title: ClassVar[str] = "Accuracy over rounds, Digit-18 (its figures on dynamics)"
    source = Digit18Study
    rows = ("FACT", "GALA")
    columns = TARGETS
