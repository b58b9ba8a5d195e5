"""The table of a study: accuracies by system and column, mean and deviation over seeds, and who fell behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from galafed.registry import in_a_list
from galafed.report.verdict import Place, Record, Why, against_the_paper, why
from galafed.reproduction.history import late_rise
from galafed.reproduction.pages import as_json, grid, listed, machines, page, write_files
from galafed.runs import archive

SELECTIONS = {"last": "last round", "selected": "label-free pick", "best_oracle": "best round (oracle)"}

Done = Sequence[tuple[str, str, Mapping[str, Any]]]
"""Row, column and summary of every finished run."""
Paper = Mapping[str, Mapping[str, float]]
"""Published accuracies by row and column."""


def write_table(
    folder: Path,
    done: Done,
    *,
    title: str,
    about: str,
    made: Mapping[str, Any],
    lower_bound: Mapping[str, str],
    paper: Paper | None = None,
    reasons: Mapping[str, Why] | None = None,
    reference: str = "",
    claims: Sequence[str] = (),
    pictures: Sequence[str] = (),
    bounded: bool = True,
    planned: Sequence[Place] = (),
) -> Sequence[Path]:
    """table.json with every cell, table.md to read.

    `lower_bound` tells of a row which other one it should not fall below, `paper` what was published by row and column,
    `reasons` why we think a row differs from it. `reference` is the row that all others are variants of. `claims` are
    sentences of the paper with what was measured, `pictures` the names of files beside the table. With `bounded` the
    oracle tells how far a system could get. `planned` has every place of the table, also those without a run so far.
    """
    found, records = _by_cell(done), cell_records(done, paper or {})
    columns = list(dict.fromkeys([column for _, column in planned] + [record["column"] for record in records]))
    intro = (
        f"Made by `{made['command']}` at commit {made['commit']} from {len(done)} runs on "
        f"{machines(summary for _, _, summary in done)}. Test accuracy in %, mean ± standard deviation (ddof 0) over "
        f"seeds. {about}{_origins(done)}"
    )
    text = page(
        title,
        intro,
        *(f"![{title}]({name})" for name in pictures),
        *_tables(records, columns),
        *_section(
            "Verdict",
            *against_the_paper(records, columns, bounded=bounded),
            listed(claims),
            *_changes(records, reference),
        ),
        *_section("Why", *why(records, reasons or {}, _late_rises(found), bounded=bounded)),
        *_behind(records, lower_bound),
    )
    return write_files(folder, {"table.json": as_json(records), "table.md": text})


def cell_records(done: Done, paper: Paper) -> list[dict[str, Any]]:
    """The records of table.json: every cell, for each way to pick a round."""
    return [
        _record(row, column, summaries, selection, paper.get(row, {}).get(column))
        for (row, column), summaries in _by_cell(done).items()
        for selection in SELECTIONS
    ]


def _by_cell(done: Done) -> dict[Place, list[Mapping[str, Any]]]:
    found: defaultdict[Place, list[Mapping[str, Any]]] = defaultdict(list)
    for row, column, summary in done:
        found[row, column].append(summary)
    return found


def _origins(done: Done) -> str:
    """What has to be said of the data of targets and sources: where it is not the paper's, for example."""
    notes: defaultdict[str, set[str]] = defaultdict(set)
    for _, _, summary in done:
        for name, note in summary.get("notes", {}).items():
            notes[name].add(note)
    if not notes:
        return ""
    told = ", ".join(f"{name} ({'; '.join(sorted(notes[name]))})" for name in sorted(notes))
    return f" To know of targets and sources: {told}."


def _record(
    row: str, column: str, summaries: Sequence[Mapping[str, Any]], selection: str, paper: float | None
) -> dict[str, Any]:
    values = [archive.accuracy(summary, selection) for summary in summaries]
    return {
        "row": row,
        "column": column,
        "mean": round(fmean(values), 4),
        "std": round(pstdev(values), 4),
        "seeds": len(values),
        "rounds": summaries[0]["rounds"],
        "selection": selection,
        "paper": paper,
        "stand_in": any(summary["target"] in summary.get("notes", {}) for summary in summaries),
    }


def _tables(records: Sequence[Record], columns: Sequence[str]) -> list[str]:
    """One table for each way to pick a round; a mean over some of a row's columns is told as one."""
    tables = []
    for selection, words in SELECTIONS.items():
        lines = []
        for row in dict.fromkeys(record["row"] for record in records):
            cells = {r["column"]: r for r in records if r["row"] == row and r["selection"] == selection}
            shown = [_cell(cells[c]) if c in cells else "-" for c in columns]
            some = f" of {len(cells)}" if len(cells) < len(columns) else ""
            lines.append([row, *shown, f"{_mean(list(cells.values()))}{some}"])
        tables += [f"## {words.capitalize()}", grid(["", *columns, "mean"], lines)]
    return [*tables, f"{_sizes(records)}; one seed where no deviation is given."]


def _sizes(records: Sequence[Record]) -> str:
    """How many rounds and seeds the cells of each row have; rows and columns are named where they differ."""
    rows: defaultdict[str, list[str]] = defaultdict(list)
    for row in dict.fromkeys(record["row"] for record in records):
        mine = [record for record in records if record["row"] == row]
        rounds, seeds = (_by_number(mine, key) for key in ("rounds", "seeds"))
        words = "1 seed a cell" if set(seeds) == {1} else _counted(seeds, "seeds", " a cell")
        rows[f"{_counted(rounds, 'rounds', '')}, {words}"].append(row)
    if len(rows) == 1:
        return next(iter(rows))
    return ", ".join(f"{size} ({'; '.join(names)})" for size, names in rows.items())


def _by_number(records: Sequence[Record], key: str) -> dict[int, list[str]]:
    """The columns that have each number of rounds or seeds, the highest number first."""
    numbers = sorted({record[key] for record in records}, reverse=True)
    return {n: list(dict.fromkeys(r["column"] for r in records if r[key] == n)) for n in numbers}


def _counted(columns: Mapping[int, Sequence[str]], words: str, everywhere: str) -> str:
    """The number, as in 3 seeds a cell; where columns differ, as in 3 seeds on mnist, 2 on svhn, syn and usps."""
    (first, at_first), *others = columns.items()
    if not others:
        return f"{first} {words}{everywhere}"
    return ", ".join([f"{first} {words} on {_and(at_first)}", *(f"{n} on {_and(at)}" for n, at in others)])


def _cell(record: Record) -> str:
    """Mean and deviation over seeds (of one seed there is none), the paper's figure in brackets, * for a stand-in."""
    text = f"{record['mean']:.1f}" + (f" ± {record['std']:.1f}" if record["seeds"] > 1 else "")
    published = f" ({record['paper']:.1f})" if record["paper"] is not None else ""
    return text + ("*" if record["stand_in"] else "") + published


def _mean(cells: Sequence[Record]) -> str:
    """The mean over columns, and of the paper's figures where it has all of them; its own averages are not used."""
    ours = f"**{fmean(cell['mean'] for cell in cells):.1f}**" + ("*" if any(c["stand_in"] for c in cells) else "")
    published = [cell["paper"] for cell in cells]
    return ours + (f" ({fmean(published):.1f})" if None not in published else "")


def _section(title: str, *paragraphs: str) -> list[str]:
    """A heading and what stands under it; none where there is nothing to say."""
    said = [text for text in paragraphs if text]
    return [f"## {title}", *said] if said else []


def _changes(records: Sequence[Record], reference: str) -> list[str]:
    """What every other row changes, in points of the last round, column by column."""
    last = {(r["row"], r["column"]): r["mean"] for r in records if r["selection"] == "last"}
    columns = [column for row, column in last if row == reference]
    lines = []
    for row in dict.fromkeys(row for row, _ in last if row != reference):
        gaps = {c: last[row, c] - last[reference, c] for c in columns if (row, c) in last}
        if gaps:
            lines.append([row, *(f"{gaps[c]:+z.1f}" if c in gaps else "-" for c in columns)])
    if not lines:
        return []
    return [f"Points more than *{reference}* has, last round:", grid(["", *columns], lines)]


def _late_rises(found: Mapping[Place, Sequence[Mapping[str, Any]]]) -> dict[Place, float]:
    """By how many points accuracy rose late in the runs of a cell, where their histories are kept."""
    kept = {place: [s for s in summaries if "accuracy" in s.get("kept", {})] for place, summaries in found.items()}
    return {place: fmean(map(late_rise, summaries)) for place, summaries in kept.items() if summaries}


def _behind(records: Sequence[Record], lower_bound: Mapping[str, str]) -> list[str]:
    """For each system the columns in which it ends below its lower bound."""
    last = {(r["row"], r["column"]): r["mean"] for r in records if r["selection"] == "last"}
    lines = []
    for row, bound in lower_bound.items():
        gaps = {c: v - last[bound, c] for (r, c), v in last.items() if r == row and (bound, c) in last}
        worse = [f"{column} ({gap:.1f})" for column, gap in gaps.items() if round(gap, 1) < 0]
        if worse:
            lines.append(f"{row}, against {bound}: {', '.join(worse)}")
    return (
        _section("Worse than without adaptation", "Last round, difference in points.", listed(lines)) if lines else []
    )


def _and(columns: Sequence[str]) -> str:
    *others, last = map(in_a_list, columns)
    return f"{', '.join(others)} and {last}" if others else last
