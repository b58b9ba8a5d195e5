"""The state of the reproduction on one page: what was measured, headlines, verdicts, pictures, what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from galafed.errors import ConfigError
from galafed.reproduction import glance
from galafed.reproduction.editions import Edition
from galafed.reproduction.pages import grid, listed, page, table_of, text_of, write_files
from galafed.reproduction.published import CONTENTS
from galafed.studies.base import Study, progress, studies

FILE = "README.md"
VERDICT, REASONS = "## Verdict", "## Why"


def write_overview(out: Path) -> Path:
    """Write the page over all studies, and its picture, into the folder of their results; returns the page."""
    text, drawing = overview(out), glance.drawn(out)
    path, *_ = write_files(out, {FILE: text} | ({glance.PICTURE: drawing} if drawing else {}))
    return path


def overview(out: Path) -> str:
    """The page, made of what the studies wrote and of nothing else."""
    if not out.is_dir():
        raise ConfigError(f"{out} is no folder of results: give one with --out")
    rows = progress(out)
    found = [row for row in rows if (out / row["name"]).is_dir() and row["measured"]]
    missing = [row for row in rows if row["measured"] < row["runs"]]
    return page(
        "Results",
        "Written by `gala reproduce --summary` from the folders beside it; the numbers are in a study's `table.json`, "
        "what verdicts say of single rounds in its `runs.jsonl`, and each table tells the command, the commit and the "
        "machine it was made with. `gala reproduce STUDY` runs what a study lacks, or goes on with it. *Its Table 1* "
        "is the paper's; means of the paper's are computed from its columns; * marks a mean over targets of which some "
        "are stand-ins.",
        table := glance.at_a_glance(out),
        f"![{glance.CAPTION}]({glance.PICTURE})" if table else "",
        _state("of the paper", (row for row in rows if row["name"] in CONTENTS), out),
        _state("ours besides", (row for row in rows if row["name"] not in CONTENTS), out),
        *(part for row in found for part in _study(out / row["name"], row)),
        *(part for edition in _editions(row["name"] for row in found) for part in _data(edition)),
        "## Missing" if missing else "",
        listed(f"{row['name']}: {row['runs'] - row['measured']} of {row['runs']} not measured" for row in missing),
        "## Also measured",
        listed(_others(out, {row["name"] for row in rows})),
    )


def _state(kind: str, rows: Iterable[Mapping[str, Any]], out: Path) -> str:
    """How much of each study was measured."""
    state = [[_link(row, out), f"{row['measured']} of {row['runs']}", row["title"]] for row in rows]
    return grid([kind, "planned runs done", "what"], state)


def _link(row: Mapping[str, Any], out: Path) -> str:
    table = out / row["name"] / "table.md"
    return f"[{row['name']}]({row['name']}/table.md)" if table.is_file() else f"{row['name']}"


def _study(folder: Path, row: Mapping[str, Any]) -> Iterator[str]:
    """The section of a study that has results."""
    yield f"## {row['title']}"
    edition = studies.get(row["name"])().of_data()
    told = f" {edition.title} ({_anchored(edition)})." if edition else ""
    yield f"`gala reproduce {row['name']}`: {row['measured']} of {row['runs']} measured.{told}"
    table = folder / "table.json"
    if table.is_file():
        yield _headline(table_of(table), _planned(row["name"]))
    yield verdict(folder / "table.md")
    yield _where_reasons_are(folder)
    for picture in sorted(folder.glob("*.png")):
        yield f"![{row['title']}]({folder.name}/{picture.name})"


def _where_reasons_are(folder: Path) -> str:
    """A link to what a study's page says of reasons; nothing where it says nothing."""
    page = folder / "table.md"
    told = page.is_file() and f"\n{REASONS}\n" in text_of(page)
    return f"What may explain the differences: [why]({folder.name}/table.md#why)." if told else ""


def _editions(names: Iterable[str]) -> list[Edition]:
    """Of the data of these studies, each once."""
    found = (studies.get(name)().of_data() for name in names)
    return sorted({edition for edition in found if edition}, key=lambda edition: edition.name)


def _data(edition: Edition) -> Iterator[str]:
    """The section on an edition, told once for all studies that have it."""
    yield f"## {edition.title}"
    yield _from_above(edition.about)


def _anchored(edition: Edition) -> str:
    """A link to that section."""
    return f"[what it is](#{edition.title.lower().replace(' ', '-')})"


def _from_above(text: str) -> str:
    """Links of a study's page, as they lead on from the folder above."""
    return text.replace("](../", "](")


def _planned(name: str) -> dict[str, set[str]]:
    """The columns that each row of a study is to have; none of one that is no table of runs."""
    study = studies.get(name)()
    found: dict[str, set[str]] = {}
    for cell in study.cells() if isinstance(study, Study) else ():
        found.setdefault(cell.row, set()).add(cell.column)
    return found


def _headline(records: Sequence[Mapping[str, Any]], planned: Mapping[str, set[str]]) -> str:
    """Of a table of accuracies: the mean of each row over columns, last round, next to the mean of the paper's."""
    last = [record for record in records if record["selection"] == "last"]
    names, columns = ({record[key] for record in last} for key in ("row", "column"))
    every = len(columns.union(*planned.values()))
    if names <= columns:
        return ""  # a matrix of domains: means over columns say nothing
    rows = []
    for name in dict.fromkeys(record["row"] for record in last):
        cells = [record for record in last if record["row"] == name]
        # A mean over some columns beside one over all would compare what cannot be compared.
        means = _means(cells) if len(cells) == every else ("-", "-")
        rows.append([name, *means, f"{len(cells)} of {every}", _seeds(cells), _seeds(cells, "rounds")])
    return grid(["last round, %", "mean", "mean of the paper's", "columns", "seeds", "rounds"], rows)


def _means(cells: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Ours and the paper's, where it has all columns; * where a target is a stand-in."""
    ours = f"{fmean(cell['mean'] for cell in cells):.1f}" + ("*" if any(cell["stand_in"] for cell in cells) else "")
    paper = [cell["paper"] for cell in cells]
    return ours, f"{fmean(paper):.1f}" if None not in paper else "-"


def _seeds(cells: Sequence[Mapping[str, Any]], key: str = "seeds") -> str:
    low, high = min(cell[key] for cell in cells), max(cell[key] for cell in cells)
    return f"{low}" if low == high else f"{low} to {high}"


def verdict(table: Path) -> str:
    """What a study's page says under its verdict, without the heading; links lead on from the folder above."""
    if not table.is_file():
        return ""
    _, _, after = text_of(table).partition(f"\n{VERDICT}\n")
    return _from_above(after.partition("\n## ")[0].strip())


def _others(out: Path, names: set[str]) -> Iterator[str]:
    """Results that belong to no study, by the first line of their pages."""
    for folder in sorted(path for path in out.iterdir() if path.is_dir() and path.name not in names):
        for file in sorted(folder.glob("*.md")):
            first = text_of(file).partition("\n")[0].lstrip("# ").rstrip(".")
            yield f"[{folder.name}/{file.name}]({folder.name}/{file.name}): {first}"
