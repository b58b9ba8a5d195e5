"""GALA, FACT and the bounds on all eight targets of `mini`, three seeds each."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.config import resolve
from galafed.runs.files import write_atomically
from galafed.studies.base import Cell, commit, studies

SEEDS = (0, 1, 2)

ROWS: Mapping[str, Mapping[str, Any]] = {
    "source-only": {"algorithm": "source_only"},
    "source-only, target statistics": {"algorithm": "source_only", "source_only": {"statistics": "target"}},
    "source-only, pooled": {"algorithm": "source_only", "source_only": {"pooled": True}},
    "FACT": {"algorithm": "fact"},
    "GALA": {"algorithm": "gala"},
    "oracle": {"algorithm": "oracle"},
}

SELECTIONS = {"last": "last round", "selected": "label-free pick", "best_oracle": "best round (oracle)"}


@studies.register("mini")
class MiniStudy:
    """Six systems, eight targets, three seeds."""

    name: ClassVar[str]
    title: ClassVar[str] = "mini: every target, GALA, FACT and the bounds"

    def cells(self) -> Sequence[Cell]:
        """One CPU thread a run, so that several run side by side."""
        targets = benchmarks.get("mini").domains
        return [
            Cell(row, target, resolve({"target": target, "seed": seed, "device": "cpu", "threads": 1, **values}))
            for row, values in ROWS.items()
            for target in targets
            for seed in SEEDS
        ]

    def write(self, folder: Path, done: Sequence[tuple[Cell, Mapping[str, Any]]], *, command: str) -> Sequence[Path]:
        """table.json with every cell, table.md to read, runs.jsonl with the summary of every run."""
        found: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for cell, summary in done:
            found[cell.row, cell.column].append(summary)
        folder.mkdir(parents=True, exist_ok=True)
        machines = sorted({f"{s['device']} ({s['machine']})" for _, s in done})
        records = [
            _record(row, column, summaries, selection)
            for (row, column), summaries in found.items()
            for selection in SELECTIONS
        ]
        made = {"command": command, "commit": commit(), "runs": len(done), "machines": machines}
        write_atomically(folder / "table.json", (json.dumps(records, indent=1) + "\n").encode())
        write_atomically(folder / "table.md", _markdown(records, made).encode())
        lines = [json.dumps({key: value for key, value in s.items() if key != "run"}) for _, s in done]
        write_atomically(folder / "runs.jsonl", ("\n".join(lines) + "\n").encode())
        return [folder / name for name in ("table.json", "table.md", "runs.jsonl")]


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


def _markdown(records: Sequence[Mapping[str, Any]], made: Mapping[str, Any]) -> str:
    columns = list(dict.fromkeys(record["column"] for record in records))
    lines = [
        "# mini: every target, GALA, FACT and the bounds",
        "",
        f"Made by `{made['command']}` at commit {made['commit']} from {made['runs']} runs, one thread each, on "
        f"{'; '.join(made['machines'])}. Test accuracy in %, mean ± standard deviation (ddof 0) over seeds. The target "
        "is named on top; the sources are the seven other domains.",
    ]
    for selection, words in SELECTIONS.items():
        lines += [
            "",
            f"## {words.capitalize()}",
            "",
            f"| | {' | '.join(columns)} | mean |",
            "|---" * (len(columns) + 2) + "|",
        ]
        for row in dict.fromkeys(record["row"] for record in records):
            cells = {r["column"]: r for r in records if r["row"] == row and r["selection"] == selection}
            shown = [f"{cells[c]['mean']:.1f} ± {cells[c]['std']:.1f}" if c in cells else "-" for c in columns]
            lines.append(f"| {row} | {' | '.join(shown)} | **{fmean(r['mean'] for r in cells.values()):.1f}** |")
    some = records[0] if records else {"rounds": 0, "seeds": 0}
    lines += ["", f"{some['rounds']} rounds, {some['seeds']} seeds a cell.", ""]
    return "\n".join(lines)
