"""The table of a study: accuracies by system and column, mean and deviation over seeds, and who fell behind."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from galafed.runs.files import write_atomically

SELECTIONS = {"last": "last round", "selected": "label-free pick", "best_oracle": "best round (oracle)"}

Done = Sequence[tuple[str, str, Mapping[str, Any]]]
"""Row, column and summary of every finished run."""
Record = Mapping[str, Any]


def write_table(
    folder: Path, done: Done, *, title: str, about: str, made: Mapping[str, Any], lower_bound: Mapping[str, str]
) -> Sequence[Path]:
    """table.json with every cell, table.md to read.

    `lower_bound` tells of a row which other one it should not fall below.
    """
    found: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row, column, summary in done:
        found[row, column].append(summary)
    records = [
        _record(row, column, summaries, selection)
        for (row, column), summaries in found.items()
        for selection in SELECTIONS
    ]
    machines = sorted({f"{s['device']} ({s['machine']})" for _, _, s in done})
    intro = (
        f"Made by `{made['command']}` at commit {made['commit']} from {len(done)} runs, one thread each, on "
        f"{'; '.join(machines)}. Test accuracy in %, mean ± standard deviation (ddof 0) over seeds. {about}"
    )
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join([f"# {title}", "", intro, *_tables(records), *_behind(records, lower_bound), ""])
    content = {
        "table.json": json.dumps(records, indent=1) + "\n",
        "table.md": text,
    }
    for name, value in content.items():
        write_atomically(folder / name, value.encode())
    return [folder / name for name in content]


def _record(row: str, column: str, summaries: Sequence[Mapping[str, Any]], selection: str) -> dict[str, Any]:
    values = [100 * summary["accuracy"][selection] for summary in summaries]
    return {
        "row": row,
        "column": column,
        "mean": round(fmean(values), 2),
        "std": round(pstdev(values), 2),
        "seeds": len(values),
        "rounds": summaries[0]["rounds"],
        "selection": selection,
        "paper": None,
        "stand_in": False,
    }


def _tables(records: Sequence[Record]) -> list[str]:
    """One table for each way to pick a round."""
    columns = list(dict.fromkeys(record["column"] for record in records))
    lines = []
    for selection, words in SELECTIONS.items():
        lines += ["", f"## {words.capitalize()}", "", f"| | {' | '.join(columns)} | mean |"]
        lines += ["|---" * (len(columns) + 2) + "|"]
        for row in dict.fromkeys(record["row"] for record in records):
            cells = {r["column"]: r for r in records if r["row"] == row and r["selection"] == selection}
            shown = [_cell(cells[c]) if c in cells else "-" for c in columns]
            lines.append(f"| {row} | {' | '.join(shown)} | **{fmean(r['mean'] for r in cells.values()):.1f}** |")
    rounds = sorted({record["rounds"] for record in records})
    seeds = sorted({record["seeds"] for record in records})
    return [*lines, "", f"{_or(rounds)} rounds, {_or(seeds)} seeds a cell; one seed where no deviation is given."]


def _cell(record: Record) -> str:
    """Mean and deviation over seeds; of a single seed there is no deviation to tell."""
    return f"{record['mean']:.1f}" + (f" ± {record['std']:.1f}" if record["seeds"] > 1 else "")


def _behind(records: Sequence[Record], lower_bound: Mapping[str, str]) -> list[str]:
    """For each system the columns in which it ends below its lower bound."""
    last = {(r["row"], r["column"]): r["mean"] for r in records if r["selection"] == "last"}
    lines = []
    for row, bound in lower_bound.items():
        gaps = {c: v - last[bound, c] for (r, c), v in last.items() if r == row and (bound, c) in last}
        worse = [f"{column} ({gap:.1f})" for column, gap in gaps.items() if gap < 0]
        if worse:
            lines.append(f"- {row}, against {bound}: {', '.join(worse)}")
    if not lines:
        return []
    return ["", "## Worse than without adaptation", "", "Last round, difference in points.", "", *lines]


def _or(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers)) or "0"
