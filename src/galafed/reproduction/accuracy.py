"""A study that is a table of accuracies: systems by columns, several seeds a cell, next to the paper's figures."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from galafed.config import resolve
from galafed.report.accuracy_table import cell_records, write_table
from galafed.report.verdict import Why
from galafed.reproduction.history import history_of
from galafed.reproduction.pages import write_files
from galafed.reproduction.published import Table
from galafed.reproduction.standings import standings
from galafed.runs import archive
from galafed.studies.base import Cell, Study, commit

Values = Mapping[str, Any]
Done = Sequence[tuple[Cell, Mapping[str, Any]]]
"""Cells with the summaries of their runs."""
Means = Mapping[tuple[str, str], float]
"""Test accuracy in percent by row and column."""

ON_A_GPU: Values = {"engine": "stacked", "precision": "bfloat16", "device": "auto", "checkpoint_every": 10}
"""How runs of full size are done; 100 rounds are minutes on one GPU and days on a processor."""

SYSTEMS: Mapping[str, Values] = {
    "oracle": {"algorithm": "oracle"},
    "source-only": {"algorithm": "source_only"},
    "source-only, target statistics": {"algorithm": "source_only", "source_only": {"statistics": "target"}},
    "MDAN": {"algorithm": "mdan"},
    "M³SDA": {"algorithm": "m3sda"},
    "CMSS": {"algorithm": "cmss"},
    "DSBN": {"algorithm": "dsbn"},
    "FADA": {"algorithm": "fada"},
    "SHOT": {"algorithm": "shot"},
    "SFDA": {"algorithm": "sfda"},
    "KD3A": {"algorithm": "kd3a"},
    "FACT": {"algorithm": "fact"},
    "GALA": {"algorithm": "gala"},
}
"""Every system, as the paper names it."""

ADAPTED = tuple(row for row in SYSTEMS if row != "oracle" and not row.startswith("source-only"))
"""Those that use images of the target."""

BY_FEATURES: Mapping[str, Values] = {
    row: {"algorithm": name, name: {"means_of": "features"}} for row, name in (("SHOT", "shot"), ("SFDA", "sfda"))
}
"""SHOT's adaptation with pseudo-labels by class means of the extractor's features, as it was measured first; where the
predictor is linear, it makes no difference."""

LABELS_BY_FEATURES: Mapping[str, Values] = {f"{row}, labels by features": v for row, v in BY_FEATURES.items()}

SEEDS: Mapping[str, int] = {"GALA": 3}
"""How many seeds a row has; one where it is not named."""


class AccuracyStudy(Study):
    """Rows by columns. A subclass tells the rows, the columns and what a column changes."""

    about: ClassVar[str]
    published: ClassVar[Table] = {}
    reasons: ClassVar[Mapping[str, Why]] = {}
    """Of a row: why we think it differs from the paper's."""
    lower_bound: ClassVar[Mapping[str, str]] = {}
    """Of a row: which other one it should not fall below."""
    reference: ClassVar[str] = ""
    """The row that all others are variants of, if there is one."""
    bounded: ClassVar[bool] = True
    """Whether the oracle tells how far a system could get: not where it learns the images it is tested on."""
    seeds: ClassVar[Mapping[str, int]] = SEEDS
    common: ClassVar[Values] = ON_A_GPU
    """What every run sets."""

    @abstractmethod
    def rows(self) -> Mapping[str, Values]:
        """What each row sets."""

    @abstractmethod
    def columns(self) -> Mapping[str, Values]:
        """What each column sets; columns win over rows."""

    def cells(self) -> Sequence[Cell]:
        """Every row in every column, with the row's number of seeds."""
        return [
            Cell(row, column, resolve({**self.common, **ours, **theirs, "seed": seed}))
            for row, ours in self.rows().items()
            for column, theirs in self.columns().items()
            for seed in range(self.seeds.get(row, 1))
        ]

    def keeps(self, folder: Path) -> Mapping[str, Any]:
        """The run's history, for the figures."""
        return history_of(folder)

    def told(self) -> str:
        """What is said above the table."""
        return self.about

    def claims(self, done: Done) -> Iterable[str]:
        """What the paper says of its figure, each sentence with the measurements that speak of it."""
        return ()

    def pictures(self, done: Done) -> Mapping[str, bytes]:
        """Pictures beside the table, by name: the table itself as one, unless a study has a better one."""
        records = cell_records([(cell.row, cell.column, summary) for cell, summary in done], self.published)
        return {f"{self.name}.png": standings(self.title, records, list(self.columns()))}

    def write(self, folder: Path, done: Done, *, command: str) -> Sequence[Path]:
        """The table with the paper's figures, the verdict and pictures."""
        pictures, cells = self.pictures(done), self.cells()
        files = write_table(
            folder,
            [(cell.row, cell.column, summary) for cell, summary in done],
            title=self.title,
            about=f"{self.told()} {self.of_data() or ''}".strip(),
            made={"command": command, "commit": commit()},
            lower_bound=self.lower_bound,
            paper=self.published,
            reasons=self.reasons,
            reference=self.reference,
            claims=list(self.claims(done)),
            pictures=list(pictures),
            bounded=self.bounded,
            planned=[(c.row, column) for column in self.columns() for c in cells if c.column == column],
        )
        return [*files, *write_files(folder, pictures)]


def last_rounds(done: Done) -> Means:
    """Accuracies of last rounds, mean over seeds, rounded as in table.json."""
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for cell, summary in done:
        found[cell.row, cell.column].append(archive.accuracy(summary))
    return {place: round(fmean(values), 4) for place, values in found.items()}
