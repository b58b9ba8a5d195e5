"""A third sweep of the digits, with the rounds of the tables: the others have 20, which may favour high rates."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import ClassVar

from galafed.reproduction.accuracy import Values
from galafed.reproduction.editions import Edition, of_edition
from galafed.studies.base import studies
from galafed.studies.sweep import Sweep
from galafed.studies.sweep_second import TARGETS

RATES = (0.04, 0.02, 0.01)
STATISTICS = ("target", "source")


def row_of(rate: float, statistics: str) -> str:
    """A learning rate, and whose BatchNorm statistics predictors have, as their row is called."""
    return f"lr {rate:g}, {statistics} statistics"


CENTRE = row_of(0.04, "target")
"""What the tables have."""


@studies.register("sweep-long")
class LongSweep(Sweep):
    """Digit-Five, the three targets of the second sweep; some of its runs are those of other studies."""

    title: ClassVar[str] = "A third sweep, with 100 rounds: lower learning rates, with both head statistics"
    about: ClassVar[str] = (
        f"The centre, {CENTRE}, is what the tables have; its rate was chosen in runs of 20 rounds. The rate falls over "
        "the rounds of a run, to a sixth in the end. The paper does not say whose BatchNorm statistics the merged "
        "predictor has; by its count of bytes, those of the sources. One seed. "
        "Lower rates with more rounds: [digit-five-rounds](../digit-five-rounds/table.md)."
    )
    reference: ClassVar[str] = CENTRE

    def of_data(self) -> Edition:
        return of_edition({})

    def rows(self) -> Mapping[str, Values]:
        return {
            row_of(rate, statistics): {"training": {"lr": rate}, "gala": {"head_statistics": statistics}}
            for statistics, rate in product(STATISTICS, RATES)
        }

    def columns(self) -> Mapping[str, Values]:
        return {target: {"benchmark": "digit-five", "rounds": 100, "target": target} for target in TARGETS}
