"""The picture of a table: a panel for each column, a line for each row, the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from galafed.report.verdict import ORACLE, UNCLEAR, judged
from galafed.reproduction.panels import ACROSS, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"✓": "C2", "▲": "C0", "▼": "C3", UNCLEAR: "0.3", "": "0.3"}
"""Of a cell, by its verdict; grey where seeds lie too far apart for one, or the paper has no figure."""
MEAN = "mean"
LONGEST = 48
"""Letters of a row's name."""

Record = Mapping[str, Any]


def standings(title: str, records: Sequence[Record], columns: Sequence[str]) -> bytes:
    """Last rounds as dots with their deviation over seeds, the paper's figures hollow, all labels as a line."""
    last = [record for record in records if record["selection"] == "last"]
    rows = list(dict.fromkeys(record["row"] for record in last))
    panels = {column: {r["row"]: r for r in last if r["column"] == column} for column in columns}
    if len(columns) > 1:
        means = {row: mean for row in rows if (mean := _mean([cells.get(row) for cells in panels.values()]))}
        panels[MEAN if MEAN not in columns else f"{MEAN} of all"] = means

    def draw(axes: Axes, panel: str) -> None:
        _draw(axes, rows, panels[panel], named=list(panels).index(panel) % ACROSS == 0)

    return picture(f"{title}\n{_legend(last)}", list(panels), draw, height=0.9 + 0.19 * max(len(rows), 5))


def _mean(cells: Sequence[Record | None]) -> Record | None:
    """The mean over all columns; none where one was not measured."""
    found = [cell for cell in cells if cell is not None]
    if len(found) < len(cells):
        return None
    published = [cell["paper"] for cell in found]
    return {
        "mean": fmean(cell["mean"] for cell in found),
        "std": 0.0,
        "paper": None if None in published else fmean(published),
        "stand_in": any(cell["stand_in"] for cell in found),
    }


def _draw(axes: Axes, rows: Sequence[str], cells: Mapping[str, Record], *, named: bool) -> None:
    for place, row in enumerate(rows):
        if row not in cells:
            continue
        ours, paper = cells[row]["mean"], cells[row]["paper"]
        colour = COLOURS[judged(cells[row]) if paper is not None else ""]
        if paper is not None:
            axes.plot([paper, ours], [place, place], color=colour, linewidth=1, alpha=0.6)
            axes.plot(paper, place, "o", color=colour, markersize=5, markerfacecolor="white")
        axes.errorbar(ours, place, xerr=cells[row]["std"] or None, fmt="o", color=colour, markersize=5, capsize=2)
    if ORACLE in cells:
        axes.axvline(cells[ORACLE]["mean"], color="0.6", linewidth=1, linestyle="--", zorder=0)
    if any(cell["stand_in"] for cell in cells.values()):
        axes.set_title(f"{axes.get_title()}*", fontsize=9)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [shorten(row) for row in rows] if named else [""] * len(rows), fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    if not cells:
        axes.set_xticks([])
        axes.text(0.5, 0.5, "not measured yet", ha="center", transform=axes.transAxes, color="0.5")


def shorten(name: str) -> str:
    """A name that leaves room for what it names."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _legend(last: Sequence[Record]) -> str:
    """What the marks mean, of those there are."""
    told = ["last round, %"]
    if published := [record for record in last if record["paper"] is not None]:
        unclear = any(judged(record) == UNCLEAR for record in published)
        told.append("ours filled, the paper's hollow: green within a point of it, blue above, red below")
        told += ["grey: seeds too far apart to say"] if unclear else []
    if any(record["row"] == ORACLE for record in last):
        told.append("dashed: all labels of the target")
    if any(record["stand_in"] for record in last):
        told.append("* made anew")
    return "; ".join(told)
