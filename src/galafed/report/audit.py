"""What crossed between server and sites in a run, for an auditor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from galafed.errors import ConfigError
from galafed.report.words import megabytes
from galafed.runs.folders import CONFIG, LEDGER
from galafed.sites.ledger import Ledger, Pages


def ledgers(folder: Path) -> dict[Path, Pages]:
    """A run's ledgers by file, a file for each site."""
    if not (folder / CONFIG).is_file():
        raise ConfigError(f"{folder}: holds no run (no {CONFIG}); 'gala ls runs' lists the runs there are")
    found = {path: Ledger(path).read() for path in sorted((folder / LEDGER).glob("*.jsonl"))}
    if not any(any(pages) for pages in found.values()):
        raise ConfigError(f"{folder}: this run kept no ledger; it was made by an earlier version")
    return found


def by_site(found: Mapping[Path, Pages]) -> dict[str, list[dict[str, Any]]]:
    """Every line that can be read."""
    return {pages.lines[0]["site"]: pages.lines for pages in found.values() if pages.lines}


def left_out(found: Mapping[Path, Pages], kind: Literal["cut", "damaged"]) -> list[str]:
    """A sentence for each file with lines that are not shown."""
    numbers = {path: ", ".join(map(str, getattr(pages, kind))) for path, pages in found.items()}
    return [f"{path}: left out, for they cannot be read: line {told}" for path, told in numbers.items() if told]


def audit_table(sites: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    """One row for each site, direction and task: how often, how much, and which parts."""
    crossed = any(line["sha256"] for lines in sites.values() for line in lines)
    table = Table(box=None, padding=(0, 2), header_style="dim", caption_justify="left", title_justify="left")
    table.title = "what left the sites, and what came in" + ("" if crossed else " (in one process: nothing did cross)")
    for heading in ("site", "direction", "task"):
        table.add_column(heading)
    for heading in ("payloads", "bytes"):
        table.add_column(heading, justify="right")
    table.add_column("parts and numbers")
    left = 0
    for site, lines in sites.items():
        for direction in ("out", "in"):
            for task in dict.fromkeys(line["task"] for line in lines):
                rows = [line for line in lines if (line["task"], line["direction"]) == (task, direction)]
                if not rows:
                    continue
                size = sum(line["bytes"] for line in rows)
                left += size if direction == "out" else 0
                table.add_row(site, direction, task, str(len(rows)), megabytes(size), _content(rows))
    table.caption = (
        f"{megabytes(left)} left the sites; 'gala audit RUN --json' has every tensor, its shape and the sha256"
    )
    return table


def _content(rows: Sequence[Mapping[str, Any]]) -> str:
    """The parts a task's payloads are made of, and the numbers besides."""
    parts = {name.rpartition("|")[0] for line in rows for name in line["tensors"]}
    numbers = {name for line in rows for name in line["numbers"]}
    notes = {line["note"] for line in rows if line.get("note")}
    return "; ".join(filter(None, (", ".join(sorted(parts)), ", ".join(sorted(numbers)), *sorted(notes)))) or "-"
