"""The paper's communication table: bytes of a round at a source, the server and the target, with 5 and 10 sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.config import resolve
from galafed.reproduction.pages import as_json, grid, listed, machines, page, table_cell, write_files
from galafed.reproduction.panels import picture
from galafed.reproduction.published import MEGABYTES_PER_ROUND
from galafed.studies.base import Cell, Study, commit, studies

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SYSTEMS = {"FACT": "fact", "GALA": "gala", "KD3A": "kd3a"}
COUNTS = (5, 10)
PARTIES = ("source", "server", "target")
COMPARABLE = 25.0
"""Percent within which two totals are called comparable."""
CLOSE = 1.0
"""Percent within which a count agrees with a figure that the paper marks as approximate."""

REASONS = {
    "KD3A": "Its sources keep their predictors, and the target receives every model once: a source moves G twice and F "
    "once, the target N models, G twice and its own F. The paper counts a whole model down and up at a source, and N "
    "of both at the target.",
}


@studies.register("traffic")
class TrafficStudy(Study):
    """Counted by the ledger of real runs with the paper's network; bytes do not depend on the images, which are few."""

    title: ClassVar[str] = "Bytes of a round (its communication table)"

    def cells(self) -> Sequence[Cell]:
        """Three rounds each: who holds a part since the round before is not sent it again, and the median tells."""
        return [
            Cell(row, f"{count} sources", resolve(_run(algorithm, count)))
            for row, algorithm in SYSTEMS.items()
            for count in COUNTS
        ]

    def write(self, folder: Path, done: Sequence[tuple[Cell, Mapping[str, Any]]], *, command: str) -> Sequence[Path]:
        """Megabytes next to the paper's, and where they differ."""
        records = [each for cell, summary in done for each in _records(cell, summary)]
        intro = (
            f"Made by `{command}` at commit {commit()} from {len(done)} runs of three rounds of `digit_cnn`, the "
            f"paper's network, on {machines(summary for _, summary in done)}. Megabytes (10⁶ bytes) of the median "
            "round, both directions together, as the ledger of each run counted its payloads: raw float32 states, "
            "without the headers of a file or a connection. The source is the busiest one. In brackets the paper's "
            "figures, which it marks as approximate."
        )
        apart = (
            "The paper's table leaves out the class centroids and the statistics of heads that the target sends; "
            "`everything` in table.json counts them too. Testing the model, which is no part of a method, stands apart."
        )
        drawn = picture(self.title, [f"{count} sources" for count in COUNTS], lambda axes, at: _draw(axes, at, records))
        text = page(
            self.title,
            intro,
            _table(records),
            f"![{self.title}](traffic.png)",
            apart,
            "## Verdict",
            listed(_verdicts(records)),
        )
        return write_files(folder, {"table.json": as_json(records), "table.md": text, "traffic.png": drawn})


def _run(algorithm: str, count: int) -> dict[str, Any]:
    return {
        "benchmark": "noise",
        "noise": {"domains": count + 1, "images": 16, "tested": 16},
        "algorithm": algorithm,
        "rounds": 3,
        "device": "cpu",
        "threads": 1,
        "checkpoint_every": 3,  # KD3A's models with ten predictors are a gigabyte
    }


def _records(cell: Cell, summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    count, counted = len(summary["sources"]), summary["bytes"]
    return [
        table_cell(
            cell.row,
            f"{cell.column}: {party}",
            round(counted[party] / 1e6, 2),
            unit="MB",
            selection="median round",
            rounds=summary["rounds"],
            paper=MEGABYTES_PER_ROUND[cell.row][count][party],
            everything=round(counted["all"][party] / 1e6, 2),
        )
        for party in PARTIES
    ]


def _table(records: Sequence[Mapping[str, Any]]) -> str:
    columns = list(dict.fromkeys(each["column"] for each in records))
    rows = []
    for row in dict.fromkeys(each["row"] for each in records):
        cells = {each["column"]: each for each in records if each["row"] == row}
        rows.append([row, *(_cell(cells[column]) if column in cells else "-" for column in columns)])
    return grid(["", *columns], rows)


def _cell(found: Mapping[str, Any]) -> str:
    paper = f"{found['paper']:g}" if found["paper"] is not None else "none given"
    return f"{found['mean']:.2f} ({paper})"


def _draw(axes: Axes, count: str, records: Sequence[Mapping[str, Any]]) -> None:
    """A bar for each system at each party, the paper's figure as a line across it."""
    rows = list(dict.fromkeys(each["row"] for each in records))
    width = 0.8 / max(len(rows), 1)
    for number, row in enumerate(rows):
        for place, party in enumerate(PARTIES):
            at = place + (number - (len(rows) - 1) / 2) * width
            for each in records:
                if (each["row"], each["column"]) == (row, f"{count}: {party}"):
                    axes.bar(at, each["mean"], 0.9 * width, color=f"C{number}", label=None if place else row)
                    if each["paper"] is not None:
                        axes.hlines(each["paper"], at - width / 2, at + width / 2, color="black", linewidth=1.5)
    axes.set_xticks(range(len(PARTIES)), PARTIES)
    axes.set_ylabel("MB a round; lines: the paper's", fontsize=8)
    if axes.patches:
        axes.legend(fontsize=7, loc="upper left")


def _verdicts(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each system: which counts agree with the paper's within a percent, and which do not."""
    lines = []
    for row in dict.fromkeys(each["row"] for each in records):
        gaps = {
            r["column"]: 100 * (r["mean"] / r["paper"] - 1)
            for r in records
            if r["row"] == row and r["paper"] is not None
        }
        off = {where: gap for where, gap in gaps.items() if abs(gap) > CLOSE}
        told = f"**{row}**: {len(gaps) - len(off)} of {len(gaps)} figures within {CLOSE:g} %"
        told += "; different: " + ", ".join(f"{where} ({gap:+.0f} %)" for where, gap in off.items()) if off else ""
        lines.append(f"{told}. {REASONS.get(row, '')}".rstrip() if off else f"{told}.")
    return [*lines, *_claims(records)]


def _claims(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the paper says of its table."""
    found = {(each["row"], each["column"]): each for each in records}
    columns = list(dict.fromkeys(each["column"] for each in records))
    whole = [column for column in columns if all((row, column) in found for row in SYSTEMS)]
    server = [column for column in whole if column.endswith(": server")]
    if server:
        more = {c: 100 * (found["GALA", c]["mean"] / found["KD3A", c]["mean"] - 1) for c in server}
        told = ", ".join(f"{column} {change:+.0f} %" for column, change in more.items())
        yield (
            f"*GALA's total remains comparable to KD3A*: {told}: "
            + ("confirmed." if max(map(abs, more.values())) < COMPARABLE else "not confirmed.")
        )
    if whole:
        least = {column: min(SYSTEMS, key=lambda row: found[row, column]["mean"]) for column in whole}
        others = [f"{column} ({row})" for column, row in least.items() if row != "FACT"]
        told = f"it moves least in {len(whole) - len(others)} of {len(whole)} columns"
        but = f", not in {', '.join(others)}" if others else ""
        yield f"*FACT is the most communication-efficient*: {told}{but}."
    sources = [column for column in whole if column.endswith(": source")]
    if sources:
        shares = [100 * (1 - found["FACT", column]["mean"] / found["GALA", column]["mean"]) for column in sources]
        verdict = "confirmed" if max(shares) < CLOSE else "not confirmed"
        yield (
            f"*Centroids are negligible in size*: all that a source of GALA moves beyond one of FACT, "
            f"{max(shares):.2f} % of its bytes: {verdict}."
        )
