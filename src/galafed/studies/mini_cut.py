"""The federated systems of `mini` with the network cut as most of their papers cut theirs: a linear predictor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.reproduction.accuracy import BY_FEATURES, Values
from galafed.reproduction.mini_table import BOUNDS, FEDERATED, MiniTable
from galafed.studies.base import studies


@studies.register("mini-cut")
class MiniCutStudy(MiniTable):
    """Does a system fall behind because of where the network is cut?"""

    title: ClassVar[str] = "mini: federated systems with a linear predictor"
    about: ClassVar[str] = (
        "The network `small_linear` has the layers of that of the study `mini`; all but the last one belong to the "
        "extractor."
    )
    lower_bound: ClassVar[Mapping[str, str]] = dict.fromkeys(FEDERATED, "source-only")

    def rows(self) -> Mapping[str, Values]:
        rows = {"source-only": BOUNDS["source-only"], **FEDERATED, **BY_FEATURES}
        return {row: {**values, "network": "small_linear"} for row, values in rows.items()}
