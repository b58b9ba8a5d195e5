"""The paper's tables of accuracies at a glance: GALA next to the paper's GALA, and to FACT."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from galafed.reproduction.pages import grid

TABLES = ("digit-five", "digit-18", "office-caltech10")
CLOSE = 1.0
"""Points below the paper's figure that are called reproduced, as in the verdicts."""
HEADER = (
    "last round, %",
    "GALA (paper)",
    "FACT (paper)",
    "GALA at least the paper's",
    "up to a point less",
    "further below",
    "ahead of FACT",
)

Cells = Mapping[str, Mapping[str, Any]]
"""By target."""


def at_a_glance(out: Path) -> str:
    """A row for each table of which GALA and FACT were measured on the same targets; empty where there is none."""
    found = {name: path for name in TABLES if (path := out / name / "table.json").is_file()}
    rows = [row for name, path in found.items() for row in _row(name, json.loads(path.read_text(encoding="utf-8")))]
    return grid(HEADER, rows) if rows else ""


def _row(name: str, records: list[Mapping[str, Any]]) -> list[list[str]]:
    gala, fact = (
        {r["column"]: r for r in records if (r["row"], r["selection"]) == (row, "last")} for row in ("GALA", "FACT")
    )
    cells = (*gala.values(), *fact.values())
    if not gala or gala.keys() != fact.keys() or any(cell["paper"] is None for cell in cells):
        return []
    # As the table shows them: what is rounded to the same figure is the same.
    short = {target: round(cell["paper"] - round(cell["mean"], 1), 1) for target, cell in gala.items()}
    ahead = [target for target in gala if round(gala[target]["mean"], 1) > round(fact[target]["mean"], 1)]
    groups = (
        [target for target, points in short.items() if points <= 0],
        [target for target, points in short.items() if 0 < points <= CLOSE],
        [f"{target} (-{points:.1f})" for target, points in short.items() if points > CLOSE],
    )
    told = [", ".join(group) or "-" for group in groups]
    return [[f"[{name}]({name}/table.md)", _mean(gala), _mean(fact), *told, f"{len(ahead)} of {len(gala)}"]]


def _mean(cells: Cells) -> str:
    """Mean over targets, the paper's in brackets, * where a target is a stand-in."""
    stars = "*" if any(cell["stand_in"] for cell in cells.values()) else ""
    ours, paper = (fmean(cell[key] for cell in cells.values()) for key in ("mean", "paper"))
    return f"{ours:.1f}{stars} ({paper:.1f})"
