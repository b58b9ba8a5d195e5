"""Tables of what benchmarks there are, and of a verified one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from galafed.inspection.presence import MISSING, READY, UNPREPARED

COLUMNS = 12
"""More classes than this make a table too wide; then the smallest and the largest class stand for all."""


def verification_tables(record: Mapping[str, Any]) -> RenderableType:
    """A row a domain: counts, leaks and checksums; then how many images each class has."""
    domains, classes = record["domains"], record["classes"]
    facts = _table("domain", "train", "test", "leaked", "sha256 train", "test", "verdict")
    columns = classes if len(classes) <= COLUMNS else ("smallest class", "largest class")
    counts = _table("images of", "", *columns)
    for name, domain in domains.items():
        label = Text(_with_note(name, domain["note"]))
        verdict = Text("wrong", style="bold red") if domain["wrong"] else Text("sound", style="green")
        if "train" not in domain:
            facts.add_row(label, "-", "-", "-", "-", "-", verdict)
            continue
        train, test = domain["train"], domain["test"]
        both = "all, by protocol" if domain["tested_on_training_images"] else _leaks(domain)
        sums = (part["checksum"][:8] for part in (train, test))
        facts.add_row(label, str(train["images"]), str(test["images"]), both, *sums, verdict)
        note = f"({domain['note']})" if domain["note"] else ""
        for part, beside in (("train", name), ("test", note)):
            histogram = domain[part]["histogram"]
            numbers = histogram if len(classes) <= COLUMNS else (min(histogram), max(histogram))
            counts.add_row(Text(beside), part, *map(str, numbers))
    return Group(facts, counts)


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(first, overflow="fold")
    for heading in others:
        table.add_column(Text(heading), justify="right", overflow="fold")
    return table


def presence_table(records: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Benchmarks with the state of their domains; then, once each, where missing ones are to be got."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for heading in ("benchmark", "state", "domains"):
        table.add_column(heading)
    styles = {READY: "green", UNPREPARED: "yellow", MISSING: "red"}
    pieces: list[RenderableType] = [table]
    for record in records:
        table.add_row(Text(record["name"], style="bold"), "", Text(record["title"]))
        for state, style in styles.items():
            names = [_with_note(name, d["note"]) for name, d in record["domains"].items() if d["state"] == state]
            if names:
                table.add_row("", Text(state, style=style), Text(", ".join(names)))
    lacks = {d["where"] for record in records for d in record["domains"].values() if d["where"]}
    if lacks:
        pieces.append(Text("where to get what is missing:", style="bold"))
        pieces.extend(Padding(Text(f"- {where}"), (0, 0, 0, 2)) for where in sorted(lacks))
    return Group(*pieces)


def _with_note(name: str, note: str) -> str:
    return f"{name} ({note})" if note else name


def _leaks(domain: Mapping[str, Any]) -> str:
    """Leaked test images, and test images that merely look like a training image."""
    alike = domain.get("look_alikes", 0)
    return f"{sum(domain['leakage'].values())}" + (f" ({alike} alike)" if alike else "")
