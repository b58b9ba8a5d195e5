"""The verdict of a table: every cell held against the paper's, GALA against FACT, and why we think cells differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from galafed.reproduction.pages import grid

ORACLE = "oracle"
"""The row that was trained with the target's labels."""
CLOSE = 1.0
"""Points within which a figure of the paper counts as reproduced."""
APART = 2.0
"""Points of deviation over seeds from which on their mean says little."""
UNCLEAR = "?"

Record = Mapping[str, Any]
Place = tuple[str, str]
"""Row and column."""
Why = str | Mapping[str, str]
"""Why we think a row differs from the paper's: in one text, or by what each part of it is about."""


def against_the_paper(records: Sequence[Record], order: Sequence[str], *, bounded: bool) -> list[str]:
    """Points above or below the paper's figures, cell by cell, and what the paper says of GALA; none without figures.

    Columns come in that order. With `bounded` the oracle tells how far a system could get.
    """
    last = [record for record in records if record["selection"] == "last"]
    published = [record for record in last if record["paper"] is not None]
    if not published:
        return []
    measured = {record["column"] for record in last}
    columns = [column for column in order if column in measured]
    rows = []
    for row in dict.fromkeys(record["row"] for record in published):
        cells = {record["column"]: record for record in published if record["row"] == row}
        gaps = [_told(cells[column]) if column in cells else "-" for column in columns]
        mean = fmean(cell["mean"] - cell["paper"] for cell in cells.values())
        rows.append([row, *gaps, _points(mean) if len(cells) == len(columns) else "-"])
    unclear = any(judged(record) == UNCLEAR for record in published)
    legend = (
        f"Points by which the last round is above the paper's figure or below it: ✓ within {CLOSE:g} (reproduced), "
        f"▲ above, ▼ below{f', {UNCLEAR} seeds too far apart to say' if unclear else ''}. Means of the paper's are "
        "computed from its columns"
        + ("; * marks a target that cannot be had and was made anew." if any(r["stand_in"] for r in last) else ".")
    )
    lead = _lead(last, "GALA", "FACT", columns)
    return [
        legend,
        grid(["", *columns, "mean"], rows),
        *lead,
        *(_below_all_labels(published, "GALA") if bounded else []),
    ]


def why(
    records: Sequence[Record], reasons: Mapping[str, Why], rises: Mapping[Place, float], *, bounded: bool
) -> list[str]:
    """What speaks for a reason of each cell that falls short, and what we think the reasons are, row by row."""
    last = {(r["row"], r["column"]): r for r in records if r["selection"] == "last" and r["paper"] is not None}
    bounds = {column: cell for (row, column), cell in last.items() if row == ORACLE} if bounded else {}
    rows = []
    for (row, column), cell in last.items():
        if _gap(cell) < -CLOSE:
            rise = _points(rises[row, column]) if (row, column) in rises else "-"
            bound = bounds.get(column) if row != ORACLE else None
            told = [f"{bound[key]:.1f}" if bound else "-" for key in ("mean", "paper")] if bounds else []
            rows.append([f"{row}, {column}", f"{cell['mean']:.1f}", f"{cell['paper']:.1f}", rise, *told])
    about = "Every cell that is more than a point below, and the points it rose by in the last quarter of the rounds"
    about += ", with what all labels of the target give." if bounds else "."
    head = ["last round, %", "here", "paper", "late rise", *(["oracle here", "oracle in the paper"] if bounds else [])]
    lines = [line for row in dict.fromkeys(row for row, _ in last) for line in _reason(row, reasons.get(row, ""))]
    return [*([about, grid(head, rows)] if rows else []), *(["\n".join(lines)] if lines else [])]


def _reason(row: str, text: Why) -> list[str]:
    """A point of the list, with one below it for each part; none where nothing is said."""
    if isinstance(text, str):
        return [f"- **{row}**: {text}"] if text else []
    return [f"- **{row}**:", *(f"    - *{topic}*: {part}" for topic, part in text.items())]


def _gap(record: Record) -> float:
    """Points above the paper's figure; of the figures as they are shown, so that all agree."""
    points: float = round(round(record["mean"], 1) - record["paper"], 1)
    return points


def judged(record: Record) -> str:
    """Within a point of the paper's figure, above it, or below; unclear where seeds lie far apart."""
    if record["std"] > APART:
        return UNCLEAR
    gap = _gap(record)
    return "✓" if abs(gap) <= CLOSE else "▲" if gap > 0 else "▼"


def _told(record: Record) -> str:
    return f"{_points(_gap(record))}{'*' if record['stand_in'] else ''} {judged(record)}"


def _points(change: float) -> str:
    return f"{change:+z.1f}"


def _lead(last: Sequence[Record], row: str, other: str, columns: Sequence[str]) -> list[str]:
    """The paper's main claim: by how much one system is ahead of the other on each target, here and there."""
    cells = {(record["row"], record["column"]): record for record in last}
    both = [(cells[row, c], cells[other, c]) for c in columns if (row, c) in cells and (other, c) in cells]
    if not both:
        return []
    here = {mine["column"]: mine["mean"] - theirs["mean"] for mine, theirs in both}
    there = {m["column"]: m["paper"] - t["paper"] for m, t in both if None not in (m["paper"], t["paper"])}
    shown = [round(lead, 1) for lead in here.values()]
    ahead, behind = sum(lead > CLOSE for lead in shown), sum(lead < -CLOSE for lead in shown)
    seeds = [" or ".join(map(str, sorted({pair[k]["seeds"] for pair in both}))) for k in (0, 1)]
    sentence = (
        f"**{row} against {other}**: ahead by more than a point on {ahead} of {len(both)}, behind by more on {behind}. "
        f"Seeds: {seeds[0]} of {row} and {seeds[1]} of {other}."
    )
    lines = []
    for side, leads in (("here", here), ("paper", there)):
        mean = _points(fmean(leads.values())) if len(leads) == len(here) else "-"
        lines += [[side, *(_points(leads[c]) if c in leads else "-" for c in here), mean]] if leads else []
    return [sentence, grid([f"{row} - {other}", *here, "mean"], lines)]


def _below_all_labels(published: Sequence[Record], row: str) -> list[str]:
    """How far a system is from the same network with all labels, here and in the paper: data may be harder here."""
    cells = {(record["row"], record["column"]): record for record in published}
    both = [(cells[row, c], cells[ORACLE, c]) for name, c in cells if name == row and (ORACLE, c) in cells]
    if not both:
        return []
    ours, papers = (fmean(mine[key] - bound[key] for mine, bound in both) for key in ("mean", "paper"))
    return [
        f"**{row} against the oracle**, which has all labels: {_points(ours)} here, {_points(papers)} in the paper, on "
        f"average over {len(both)} targets; the oracle has {fmean(bound['mean'] for _, bound in both):.1f} here and "
        f"{fmean(bound['paper'] for _, bound in both):.1f} there."
    ]
