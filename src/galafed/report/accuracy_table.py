"""The table of a study: accuracies by system and column, mean and deviation over seeds, and who fell behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from galafed.registry import in_a_list
from galafed.reproduction.history import late_rise
from galafed.reproduction.pages import as_json, machines, signed, write_files
from galafed.runs import archive

ORACLE = "oracle"
"""The row that was trained with the target's labels."""

MOVING = 0.5
"""Points by which accuracy has to change in the last quarter of the rounds to be worth telling."""

SELECTIONS = {"last": "last round", "selected": "label-free pick", "best_oracle": "best round (oracle)"}

Done = Sequence[tuple[str, str, Mapping[str, Any]]]
"""Row, column and summary of every finished run."""
Record = Mapping[str, Any]
Place = tuple[str, str]
"""Row and column."""
Paper = Mapping[str, Mapping[str, float]]
"""Published accuracies by row and column."""
Why = str | Mapping[str, str]
"""Why we think a row differs from the paper's: in one text, or by what each part of it is about."""


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
    intro = (
        f"Made by `{made['command']}` at commit {made['commit']} from {len(done)} runs on "
        f"{machines(summary for _, _, summary in done)}. Test accuracy in %, mean ± standard deviation (ddof 0) over "
        f"seeds. {about}{_origins(done)}"
    )
    text = "\n".join(
        [
            f"# {title}",
            "",
            intro,
            *(line for name in pictures for line in ("", f"![{title}]({name})")),
            *_tables(records, planned),
            *_verdict(
                _beside_the_paper(records, reasons or {}, _late_rises(found), bounded),
                [f"- {claim}" for claim in claims],
                _changes(records, reference),
            ),
            *_behind(records, lower_bound),
            "",
        ]
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


def _tables(records: Sequence[Record], planned: Sequence[Place]) -> list[str]:
    """One table for each way to pick a round; a mean over some of a row's columns is told as one."""
    columns = list(dict.fromkeys([column for _, column in planned] + [record["column"] for record in records]))
    lines = []
    for selection, words in SELECTIONS.items():
        lines += ["", f"## {words.capitalize()}", "", f"| | {' | '.join(columns)} | mean |"]
        lines += ["|---" * (len(columns) + 2) + "|"]
        for row in dict.fromkeys(record["row"] for record in records):
            cells = {r["column"]: r for r in records if r["row"] == row and r["selection"] == selection}
            shown = [_cell(cells[c]) if c in cells else "-" for c in columns]
            some = f" of {len(cells)}" if len(cells) < len(columns) else ""
            lines.append(f"| {row} | {' | '.join(shown)} | {_mean(list(cells.values()))}{some} |")
    return [*lines, "", f"{_sizes(records)}; one seed where no deviation is given."]


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


def _verdict(*parts: Sequence[str]) -> list[str]:
    """The section of a table that says what it means; none where there is nothing to say."""
    lines = [line for part in parts if part for line in ("", *part)]
    return ["", "## Verdict", *lines] if lines else []


def _beside_the_paper(
    records: Sequence[Record], reasons: Mapping[str, Why], rises: Mapping[Place, float], bounded: bool
) -> list[str]:
    """Of each row that the paper has: where the last round is within a point of it, above, or below."""
    lines = []
    for row in dict.fromkeys(record["row"] for record in records if record["paper"] is not None):
        gaps = {
            r["column"]: round(r["mean"] - r["paper"], 1)  # as it is shown, so that the two agree
            for r in records
            if r["row"] == row and r["selection"] == "last" and r["paper"] is not None
        }
        kinds = {
            "reproduced within 1 point": [c for c, gap in gaps.items() if abs(gap) <= 1],
            "above": [f"{c} ({gap:+.1f})" for c, gap in gaps.items() if gap > 1],
            "below": [
                f"{c} ({gap:+.1f}{_trend(rises.get((row, c), 0.0))}{_ceiling(records, row, c) if bounded else ''})"
                for c, gap in gaps.items()
                if gap < -1
            ],
        }
        told = "; ".join(f"{kind}: {', '.join(columns)}" for kind, columns in kinds.items() if columns)
        why = reasons.get(row, "")
        lines.append(f"- **{row}** {told}." + (f" {why}" if isinstance(why, str) and why else ""))
        lines += [] if isinstance(why, str) else [f"    - *{topic}*: {text}" for topic, text in why.items()]
    if not lines:
        return []
    lines += [*_against(records, "GALA", "FACT"), *(_below_all_labels(records, "GALA") if bounded else [])]
    head = (
        "The paper's figures stand in brackets, means computed from its columns; * marks a target whose data is not "
        "the paper's."
    )
    return [head, "", *lines]


def _against(records: Sequence[Record], row: str, other: str) -> list[str]:
    """The paper's main claim: by how much one system is ahead of the other on each target, here and there."""
    last = {(r["row"], r["column"]): r for r in records if r["selection"] == "last"}
    pairs = {c: (last[row, c], last[other, c]) for name, c in last if name == row and (other, c) in last}
    if not pairs:
        return []
    gaps = {column: round(mine["mean"] - theirs["mean"], 1) for column, (mine, theirs) in pairs.items()}
    papers = {
        column: mine["paper"] - theirs["paper"]
        for column, (mine, theirs) in pairs.items()
        if mine["paper"] is not None and theirs["paper"] is not None
    }
    sides = {
        "ahead by more than a point": [c for c, gap in gaps.items() if gap > 1],
        "within a point": [c for c, gap in gaps.items() if abs(gap) <= 1],
        "behind": [c for c, gap in gaps.items() if gap < -1],
    }

    def told(column: str) -> str:
        return f"{column} ({gaps[column]:+.1f}" + (f", paper {papers[column]:+.1f})" if column in papers else ")")

    sentence = "; ".join(f"{side} on {', '.join(map(told, columns))}" for side, columns in sides.items() if columns)
    paper = f", {fmean(papers.values()):+.1f} in the paper" if papers else ""
    seeds = " and ".join(
        f"{_or(sorted({pair[k]['seeds'] for pair in pairs.values()}))} of {name}" for k, name in enumerate((row, other))
    )
    average = fmean(mine["mean"] - theirs["mean"] for mine, theirs in pairs.values())
    return [f"- **{row} against {other}** {sentence}. On average {average:+.1f}{paper}. Seeds: {seeds}."]


def _below_all_labels(records: Sequence[Record], row: str) -> list[str]:
    """How far a system is from the same network with all labels, here and in the paper: data may be harder here."""
    last = {(r["row"], r["column"]): r for r in records if r["selection"] == "last" and r["paper"] is not None}
    both = [(last[row, c], last[ORACLE, c]) for name, c in last if name == row and (ORACLE, c) in last]
    if not both:
        return []
    ours, papers = (fmean(mine[key] - bound[key] for mine, bound in both) for key in ("mean", "paper"))
    return [
        f"- **{row} against the oracle**, which has all labels: {ours:+.1f} here, {papers:+.1f} in the paper, on "
        f"average over {len(both)} targets; the oracle has {fmean(bound['mean'] for _, bound in both):.1f} here and "
        f"{fmean(bound['paper'] for _, bound in both):.1f} there."
    ]


def _changes(records: Sequence[Record], reference: str) -> list[str]:
    """What every other row changes, in points of the last round, column by column."""
    last = {(r["row"], r["column"]): r["mean"] for r in records if r["selection"] == "last"}
    lines = []
    for row in dict.fromkeys(record["row"] for record in records if record["row"] != reference):
        gaps = {c: v - last[reference, c] for (r, c), v in last.items() if r == row and (reference, c) in last}
        if gaps:
            lines.append(f"- **{row}**: {signed(gaps)}")
    if not lines:
        return []
    return [f"Against *{reference}*, last round, difference in points:", "", *lines]


def _late_rises(found: Mapping[Place, Sequence[Mapping[str, Any]]]) -> dict[Place, float]:
    """By how many points accuracy rose late in the runs of a cell, where their histories are kept."""
    kept = {place: [s for s in summaries if "accuracy" in s.get("kept", {})] for place, summaries in found.items()}
    return {place: fmean(map(late_rise, summaries)) for place, summaries in kept.items() if summaries}


def _trend(rise: float) -> str:
    """Whether more rounds would have changed the figure."""
    if abs(rise) < MOVING:
        return ""
    return f"; {'rose' if rise > 0 else 'fell'} by {abs(rise):.1f} in the last quarter of the rounds"


def _ceiling(records: Sequence[Record], row: str, column: str) -> str:
    """What the same network reaches on the same data with all labels: a target may be harder here than there."""
    for record in records:
        if (record["row"], record["column"], record["selection"]) == (ORACLE, column, "last") and row != ORACLE:
            return f"; {ORACLE} {record['mean']:.1f} here, {record['paper']:.1f} there" if record["paper"] else ""
    return ""


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


def _and(columns: Sequence[str]) -> str:
    *others, last = map(in_a_list, columns)
    return f"{', '.join(others)} and {last}" if others else last


def _or(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))
