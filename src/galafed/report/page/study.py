"""The page of a study: every system on every column, and the summaries behind the table."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from galafed.errors import DataError
from galafed.report.accuracy_table import SELECTIONS
from galafed.report.page.charts import Bars, Heat
from galafed.report.page.document import Fact, Page, Section, table
from galafed.report.verdict import ORACLE
from galafed.report.words import percent, with_note

Record = Mapping[str, Any]


def study_page(folder: Path) -> Page:
    """The page of a study's folder, from its table.json and, where it is there, runs.jsonl."""
    try:
        records: list[dict[str, Any]] = json.loads((folder / "table.json").read_bytes())
        cells = [_cell(r) for r in records if r["selection"] in SELECTIONS and isinstance(r["mean"], int | float)]
        runs = _runs(folder / "runs.jsonl")
        rows = list(dict.fromkeys(r["row"] for r in cells))
        of_row = Counter(r["row"] for r in cells)
        # A row with few columns does not tell their order.
        columns = list(dict.fromkeys(r["column"] for r in sorted(cells, key=lambda r: -of_row[r["row"]])))
        listed = _listed(runs)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder}: table.json is not the table of a study with accuracies, or runs.jsonl not its runs "
            f"({error!r}); write them with 'gala reproduce STUDY', or read {folder / 'table.md'}"
        ) from None
    last = {(r["row"], r["column"]): r for r in cells if r["selection"] == "last"}
    if not last:
        raise DataError(f"{folder / 'table.json'}: holds no accuracy to draw; read {folder / 'table.md'}")
    gaps = {at: r["mean"] - r["paper"] for at, r in last.items() if r.get("paper") is not None}
    whole = [row for row in rows if all((row, column) in last for column in columns)]
    means = {row: fmean(last[row, column]["mean"] for column in columns) / 100 for row in whole}
    ranked = sorted(whole, key=lambda row: -means[row])
    order = [*ranked, *(row for row in rows if row not in whole)]
    starred = [f"{c}*" if any(r["stand_in"] for (_, at), r in last.items() if at == c) else c for c in columns]
    made_anew = " * marks a target that cannot be had and was made anew." if starred != columns else ""
    accuracies = {at: r["mean"] for at, r in last.items()}
    return Page(
        title=f"Study {folder.resolve().name}",
        sentence=f"{len(rows)} systems on {len(columns)} targets{_ahead(ranked, means)}.{made_anew}",
        facts=[
            Fact("systems", str(len(rows))),
            Fact("targets", str(len(columns))),
            Fact("runs", str(len(runs) or "–")),
        ],
        sections=[
            *([Section("means", "Means", charts=[_means(ranked, cells, len(whole) < len(rows))])] if ranked else []),
            Section("table", "Every system on every target", charts=[_heat(order, columns, starred, accuracies)]),
            *([Section("paper", "Next to the paper", charts=[_beside(order, columns, starred, gaps)])] if gaps else []),
            *([Section("runs", "Runs", html=listed)] if runs else []),
        ],
    )


def _cell(record: Mapping[str, Any]) -> dict[str, Any]:
    """A cell whose numbers can be drawn, with what older tables may not tell."""
    numbers = [record["mean"], *([] if record.get("paper") is None else [record["paper"]])]
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{record['row']}, {record['column']}: {numbers} are no numbers")
    return {
        **record,
        "row": str(record["row"]),
        "column": str(record["column"]),
        "stand_in": bool(record.get("stand_in")),
    }


def _ahead(ranked: Sequence[str], means: Mapping[str, float]) -> str:
    """Which system has the highest mean, of those that were measured on every target."""
    top = next((row for row in ranked if row != ORACLE), None)
    if top is None:
        return ""
    aside = " (an oracle, which sees the target's labels, is left aside)" if ORACLE in ranked else ""
    return f": {top} is ahead with {percent(means[top])} on average after the last round{aside}"


def _means(rows: Sequence[str], cells: Sequence[Record], some_lack: bool) -> Any:
    series = {
        words: [_mean([r["mean"] / 100 for r in cells if r["row"] == row and r["selection"] == key]) for row in rows]
        for key, words in SELECTIONS.items()
    }
    about = "Over all targets. The best round is picked by test labels."
    if some_lack:
        about = "Over all targets, of systems that were measured on all. The best round is picked by test labels."
    return Bars(names=rows, series=series, format="percent", high=1.0).chart(
        "means-chart", "Mean test accuracy of each system", about
    )


def _heat(
    rows: Sequence[str], columns: Sequence[str], starred: Sequence[str], last: Mapping[tuple[str, str], float]
) -> Any:
    return Heat(
        rows=rows,
        columns=starred,
        values=[[last.get((row, column)) for column in columns] for row in rows],
        rows_title="system",
        columns_title="target",
        format="points",
        cell="points",
    ).chart("table-chart", "Test accuracy in % after the last round", "Mean over seeds; the best system stands on top.")


def _beside(
    rows: Sequence[str], columns: Sequence[str], starred: Sequence[str], gaps: Mapping[tuple[str, str], float]
) -> Any:
    told = [row for row in rows if any((row, column) in gaps for column in columns)]
    return Heat(
        rows=told,
        columns=starred,
        values=[[gaps.get((row, column)) for column in columns] for row in told],
        rows_title="system",
        columns_title="target",
        format="signed",
        cell="signed",
        middle=0.0,
        high=10.0,
    ).chart("paper-chart", "Points above the paper's figure, or below it", "After the last round, mean over seeds.")


def _runs(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []


def _listed(runs: Sequence[Mapping[str, Any]]) -> str:
    head = [
        "target",
        "algorithm",
        "network",
        "seed",
        "rounds",
        "last round",
        "label-free pick",
        "best (oracle)",
        "s/round",
    ]
    rows = [
        [
            with_note(str(run["target"]), run.get("notes", {}).get(run["target"], "")),
            str(run["algorithm"]),
            str(run.get("network", "–")),
            str(run["seed"]),
            str(run["rounds"]),
            *(percent(run["accuracy"][key]) for key in SELECTIONS),
            f"{run['seconds_per_round']:.2f}",
        ]
        for run in runs
    ]
    return table(head, rows, caption="The runs behind the table")


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
