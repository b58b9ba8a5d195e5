"""What a study writes: files, tables in Markdown, and where the numbers come from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from galafed.errors import DataError
from galafed.runs.files import explained, write_atomically


def write_files(folder: Path, content: Mapping[str, str | bytes]) -> list[Path]:
    """Files by name, each whole or not at all."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, value in content.items():
        write_atomically(folder / name, value.encode() if isinstance(value, str) else value)
    return [folder / name for name in content]


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; what would end a cell, or begin HTML, is escaped."""

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace('<', '&lt;') for cell in cells)} |"

    return "\n".join([line(head), line(["---"] * len(head)), *map(line, rows)])


def as_json(value: Any) -> str:
    """For people to read and programs to take."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def table_cell(
    row: str,
    column: str,
    mean: float,
    *,
    unit: str,
    selection: str,
    rounds: int = 0,
    std: float = 0.0,
    seeds: int = 1,
    paper: float | None = None,
    stand_in: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """A cell of a table.json that holds no accuracies: the keys that those have, its unit, and what it has beside."""
    return {
        "row": row,
        "column": column,
        "mean": mean,
        "std": std,
        "seeds": seeds,
        "rounds": rounds,
        "selection": selection,
        "paper": paper,
        "stand_in": stand_in,
        "unit": unit,
        **more,
    }


def text_of(path: Path) -> str:
    """What a study wrote into a file; one that cannot be read is told."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise _unreadable(path) from None


def table_of(path: Path) -> list[dict[str, Any]]:
    """The cells of a table.json; one that cannot be read is told."""
    try:
        cells: list[dict[str, Any]] = json.loads(text_of(path))
        whole = isinstance(cells, list) and all({"row", "column", "mean", "selection"} <= cell.keys() for cell in cells)
    except (ValueError, AttributeError):
        whole = False
    if not whole:
        raise _unreadable(path)
    return cells


def _unreadable(path: Path) -> DataError:
    again = f"gala reproduce {path.parent.name} --table"
    return DataError(f"{path}: cannot be read; restore the file, or write that of a study anew with '{again}'")


def page(title: str, *paragraphs: str) -> str:
    """A page in Markdown; empty paragraphs are left out."""
    return "\n\n".join([f"# {title}", *(text for text in paragraphs if text)]) + "\n"


def listed(lines: Iterable[str]) -> str:
    """A list in Markdown."""
    return "\n".join(f"- {line}" for line in lines)


def signed(changes: Mapping[str, float]) -> str:
    """Differences in points by name, each with its sign."""
    return ", ".join(f"{name} {change:+z.1f}" for name, change in changes.items())


def machines(summaries: Iterable[Mapping[str, Any]]) -> str:
    """The machines that summaries were made on."""
    return "; ".join(sorted({f"{summary['device']} ({summary['machine']})" for summary in summaries}))
