"""How much τ matters: GALA with several values on two targets of each digit benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.reproduction.accuracy import AccuracyStudy, Values
from galafed.studies.base import studies

TAUS = (0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 3.0)


@studies.register("temperature")
class TemperatureStudy(AccuracyStudy):
    """τ from 0.2, where sources count almost the same, to 3, where few count."""

    title: ClassVar[str] = "GALA with several τ (its figure on sensitivity)"
    about: ClassVar[str] = "The rows are values of τ; the paper shows its figures as curves only."

    reference: ClassVar[str] = "τ = 1"

    def rows(self) -> Mapping[str, Values]:
        return {f"τ = {tau:g}": {"gala": {"tau": tau}} for tau in TAUS}

    def columns(self) -> Mapping[str, Values]:
        targets = (("digit-five", "mnistm"), ("digit-five", "svhn"), ("digit-18", "mnistm"), ("digit-18", "svhnxs"))
        return {f"{target}, {name}": {"benchmark": name, "target": target, "rounds": 60} for name, target in targets}
