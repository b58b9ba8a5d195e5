"""An inspection as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from galafed.inspection.listing import few

COLUMNS = 12
"""More classes than this make a table too wide; then the smallest and the largest class stand for all."""


def describe(record: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Everything worth saying, one piece after the other."""
    domains, classes = record["domains"], record["classes"]
    yield Text(
        f"{record['path']}: {record['images']} images, {len(domains)} domains, {len(classes)} classes"
        + (f" ({few(classes, 10)})" if classes else ""),
        style="bold",
    )
    if domains:
        yield _domain_table(record)
        yield _class_table(record)
    for heading, style, sentences in (
        ("cannot be used:", "bold red", record["problems"]),
        ("to know:", "bold yellow", record["warnings"]),
        ("advice:", "bold green", record["advice"] if record["usable"] else ()),
    ):
        if sentences:
            yield Text(heading, style=style)
            yield from (Text(f"  - {sentence}") for sentence in sentences)
    if record["unreadable"]:
        yield Text("cannot be read:", style="bold yellow")
        yield from (Text(f"  - {entry['reason']}") for entry in record["unreadable"])


def _domain_table(record: Mapping[str, Any]) -> Table:
    table = _table("domain", "images", "train", "test", "split", "classes", "pixels", "modes")
    for name, domain in record["domains"].items():
        present = len(record["classes"]) - len(domain["missing"])
        modes = ", ".join(f"{mode} {count}" for mode, count in domain["modes"].items())
        counts = (str(domain[key]) for key in ("images", "train", "test"))
        classes = f"{present} of {len(record['classes'])}"
        table.add_row(Text(name), *counts, domain["split"], classes, _size(domain["sizes"]), modes)
    return table


def _class_table(record: Mapping[str, Any]) -> Table:
    """Images of each class in each domain, or of the extreme ones where there are many classes."""
    if len(record["classes"]) <= COLUMNS:
        table = _table("images of", *record["classes"])
        for name, domain in record["domains"].items():
            table.add_row(Text(name), *(str(count or "-") for count in domain["per_class"].values()))
        return table
    table = _table("images of", "smallest class", "median class", "largest class")
    for name, domain in record["domains"].items():
        ordered = sorted(domain["per_class"].items(), key=lambda item: item[1])
        picks = (ordered[0], ordered[len(ordered) // 2], ordered[-1])
        table.add_row(Text(name), *(Text(f"{count} ({label})") for label, count in picks))
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column(first, overflow="fold")
    for heading in others:
        table.add_column(Text(heading), justify="right")
    return table


def _size(sizes: Mapping[str, Any]) -> str:
    """The one size of all images, or the range of their shorter sides."""
    if not sizes:
        return "-"
    width, height = sizes["most_common"]
    if sizes["different"] == 1:
        return f"{width}x{height}"
    side = sizes["shorter_side"]
    return f"{side['least']} to {side['most']}"
