"""What tables on `mini` have in common: every run three times, on one thread, so that several run side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.reproduction.accuracy import AccuracyStudy, Values

BOUNDS: Mapping[str, Values] = {
    "source-only": {"algorithm": "source_only"},
    "source-only, target statistics": {"algorithm": "source_only", "source_only": {"statistics": "target"}},
    "source-only, pooled": {"algorithm": "source_only", "source_only": {"pooled": True}},
    "source-only, pooled, target statistics": {
        "algorithm": "source_only",
        "source_only": {"pooled": True, "statistics": "target"},
    },
    "oracle": {"algorithm": "oracle"},
}
CENTRAL: Mapping[str, Values] = {
    "MDAN": {"algorithm": "mdan"},
    "M³SDA": {"algorithm": "m3sda"},
    "CMSS": {"algorithm": "cmss"},
    "DSBN": {"algorithm": "dsbn"},
}
FEDERATED: Mapping[str, Values] = {
    "FADA": {"algorithm": "fada"},
    "SHOT": {"algorithm": "shot"},
    "SFDA": {"algorithm": "sfda"},
    "KD3A": {"algorithm": "kd3a"},
    "FACT": {"algorithm": "fact"},
    "GALA": {"algorithm": "gala"},
}
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
