"""`gala` with two studies that do not end, as a program: `python endless_study.py reproduce endless after`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from galafed.cli import main
from galafed.config import resolve
from galafed.studies.base import Cell, Study, studies

ROUNDS = 100_000
"""More than anybody waits for."""


class Endless(Study):
    """A run that is soon done, and four that are not."""

    title = "An endless study"

    def cells(self) -> list[Cell]:
        values = {"benchmark": "toy", "device": "cpu", "threads": 1, "algorithm": "source_only"}
        lengths = dict(enumerate((1, *[ROUNDS] * 4)))
        runs = (resolve({**values, "seed": seed, "rounds": rounds}) for seed, rounds in lengths.items())
        return [Cell("plain", "toy", run) for run in runs]

    def write(self, folder: Path, done: Sequence[tuple[Cell, Mapping[str, Any]]], *, command: str) -> list[Path]:
        (folder / "table.md").write_text(f"{len(done)} runs")
        return [folder / "table.md"]


if __name__ == "__main__":
    for name in ("endless", "after"):
        studies.register(name)(type(name, (Endless,), {}))
    main()
