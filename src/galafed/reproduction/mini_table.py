"""What tables on `mini` have in common: every run three times, on one thread, so that several run side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.reproduction.accuracy import SYSTEMS, AccuracyStudy, Values

BOUNDS: Mapping[str, Values] = {
    "source-only": SYSTEMS["source-only"],
    "source-only, target statistics": SYSTEMS["source-only, target statistics"],
    "source-only, pooled": {"algorithm": "source_only", "source_only": {"pooled": True}},
    "source-only, pooled, target statistics": {
        "algorithm": "source_only",
        "source_only": {"pooled": True, "statistics": "target"},
    },
    "oracle": SYSTEMS["oracle"],
}
CENTRAL = {row: SYSTEMS[row] for row in ("MDAN", "M³SDA", "CMSS", "DSBN")}
FEDERATED = {row: SYSTEMS[row] for row in ("FADA", "SHOT", "SFDA", "KD3A", "FACT", "GALA")}
ROWS = {**BOUNDS, **CENTRAL, **FEDERATED}


class MiniTable(AccuracyStudy):
    """Every target is a column, unless a study says otherwise."""

    common: ClassVar[Values] = {"benchmark": "mini", "device": "cpu", "threads": 1}
    seeds: ClassVar[Mapping[str, int]] = dict.fromkeys(ROWS, 3)

    def columns(self) -> Mapping[str, Values]:
        return {target: {"target": target} for target in benchmarks.get("mini").domains}

    def keeps(self, folder: Path) -> Mapping[str, Any]:
        """Nothing beside the summary."""
        return {}
