"""The paper's tables of accuracies at a glance: GALA next to the paper's GALA, and to FACT."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from galafed.report.verdict import CLOSE
from galafed.reproduction.pages import grid, table_of
from galafed.reproduction.panels import picture
from galafed.reproduction.published import TABLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEADER = (
    "last round, %",
    "GALA (paper)",
    "FACT (paper)",
    "GALA at least the paper's",
    "up to a point less",
    "further below",
    "ahead of FACT (by more than a point)",
)

ROWS = ("oracle", "FACT", "GALA")
PICTURE = "glance.png"
CAPTION = "GALA and FACT next to the paper, target by target"

Cells = Mapping[str, Mapping[str, Any]]
"""By target."""


def at_a_glance(out: Path) -> str:
    """A row for each table of which GALA and FACT were measured on the same targets; empty where there is none."""
    rows = [_row(name, rows) for name, rows in _tables(out).items()]
    return grid(HEADER, rows) if rows else ""


def drawn(out: Path) -> bytes | None:
    """A panel for each of these tables, a line for each target; none where there is no table."""
    tables = _tables(out)
    return picture(CAPTION, list(tables), lambda axes, name: _draw(axes, tables[name])) if tables else None


def _tables(out: Path) -> dict[str, dict[str, Cells]]:
    """By study, the cells of each row in the last round, where GALA and FACT can be held against the paper."""
    found: dict[str, dict[str, Cells]] = {}
    for name in TABLES:
        if (path := out / name / "table.json").is_file():
            last = [record for record in table_of(path) if record["selection"] == "last"]
            rows: dict[str, Cells] = {row: {r["column"]: r for r in last if r["row"] == row} for row in ROWS}
            told = all(cell["paper"] is not None for row in ("FACT", "GALA") for cell in rows[row].values())
            if rows["GALA"] and rows["GALA"].keys() == rows["FACT"].keys() and told:
                found[name] = rows
    return found


def _row(name: str, rows: Mapping[str, Cells]) -> list[str]:
    gala, fact = rows["GALA"], rows["FACT"]
    short = {target: _short(cell) for target, cell in gala.items()}
    leads = [round(gala[target]["mean"] - fact[target]["mean"], 1) for target in gala]  # as verdicts show them
    ahead, clearly = sum(lead > 0 for lead in leads), sum(lead > CLOSE for lead in leads)
    groups = (
        [target for target, points in short.items() if points <= 0],
        [target for target, points in short.items() if 0 < points <= CLOSE],
        [f"{target} (-{points:.1f})" for target, points in short.items() if points > CLOSE],
    )
    told = [", ".join(group) or "-" for group in groups]
    return [f"[{name}]({name}/table.md)", _mean(gala), _mean(fact), *told, f"{ahead} ({clearly}) of {len(gala)}"]


def _short(cell: Mapping[str, Any]) -> float:
    """Points that lack; as the table shows them, for what is rounded to the same figure is the same."""
    points: float = round(cell["paper"] - round(cell["mean"], 1), 1)
    return points


def _mean(cells: Cells) -> str:
    """Mean over targets, the paper's in brackets, * where a target is a stand-in."""
    stars = "*" if any(cell["stand_in"] for cell in cells.values()) else ""
    ours, paper = (fmean(cell[key] for cell in cells.values()) for key in ("mean", "paper"))
    return f"{ours:.1f}{stars} ({paper:.1f})"


def _draw(axes: Axes, rows: Mapping[str, Cells]) -> None:
    """Accuracies from left to right, targets from top to bottom: ours filled, the paper's hollow."""
    targets = list(rows["GALA"])
    for row, colour, mark, shift in (("FACT", "C0", "s", 0.17), ("GALA", "C3", "o", -0.17)):
        for place, target in enumerate(targets):
            cell, height = rows[row][target], place + shift
            axes.plot([cell["paper"], cell["mean"]], [height, height], color=colour, linewidth=1, alpha=0.6)
            axes.plot(cell["paper"], height, mark, color=colour, markersize=5, markerfacecolor="white")
            axes.plot(cell["mean"], height, mark, color=colour, markersize=5, label=row if not place else None)
    for place, target in enumerate(targets):
        if target in rows["oracle"]:
            axes.plot(rows["oracle"][target]["mean"], place, "|", color="0.4", markersize=16)
    stars = ["*" if rows["GALA"][target]["stand_in"] else "" for target in targets]
    axes.set_yticks(range(len(targets)), [f"{t}{star}" for t, star in zip(targets, stars, strict=True)], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("last round, %: ours filled, the paper's hollow; | all labels", fontsize=8)
    axes.legend(fontsize=7, loc="best")
