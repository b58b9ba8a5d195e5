"""The paper's cross-domain matrix: a model trained on each domain alone, tested on all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.bounds import at_least
from galafed.config import resolve
from galafed.digits.benchmark import DigitBenchmark
from galafed.reproduction.accuracy import ON_A_GPU
from galafed.reproduction.editions import FIRST, OF_FIRST, Edition
from galafed.reproduction.pages import as_json, grid, listed, machines, page, write_files
from galafed.reproduction.published import DIGIT_18
from galafed.runs import archive
from galafed.studies.base import Cell, Study, commit, studies
from galafed.typed import build

if TYPE_CHECKING:
    from galafed.loops import Images

CLEAN = ("usps", "ardis", "tmnist", "mnistxs", "mniststack")
"""Digits on a plain ground, beside MNIST."""
SVHN_LIKE = ("svhn", "svhnm", "svhnxs", "svhnstack", "synxs")

Matrix = Mapping[str, Mapping[str, float]]
"""Accuracies in percent: trained on, tested on."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The paper trains 500 epochs with a fixed learning rate of 0.001."""

    benchmark: str = "digit-18"
    epochs: int = 30
    seed: int = 0

    def __post_init__(self) -> None:
        at_least("epochs", self.epochs, 1)


@studies.register("similarity")
class SimilarityStudy(Study):
    """One run of the oracle a row, which trains on a domain's labels; its model is then tested on every domain."""

    title: ClassVar[str] = "How alike the domains are (its cross-domain matrix)"
    Settings = Settings

    def of_data(self) -> Edition | None:
        return OF_FIRST if self._edition else None

    def cells(self) -> Sequence[Cell]:
        """A run for each domain, the row of the matrix."""
        return [Cell(domain, "all domains", resolve(self._run(domain))) for domain in self._domains]

    def keeps(self, folder: Path) -> Mapping[str, Any]:
        """The row of the matrix: the accuracy of the run's last model on the test images of every domain."""
        from galafed.loops import Bench
        from galafed.runs.assembly import pick_device
        from galafed.runs.folders import load_config
        from galafed.similarity import accuracy_of
        from galafed.trained.loading import load

        model = load(folder).classifier
        device = pick_device(load_config(folder).device)  # where the run was done
        bench = Bench(model.network, device)
        states = {part: {key: value.to(device) for key, value in s.items()} for part, s in model.states().items()}
        tested = {name: accuracy_of(bench, states, test.to(device)) for name, (test, _) in self._tests.items()}
        notes = {name: note for name, (_, note) in self._tests.items() if note}
        return {"tested_on": {name: round(value, 5) for name, value in tested.items()}, "notes": notes}

    def write(self, folder: Path, done: Sequence[tuple[Cell, Mapping[str, Any]]], *, command: str) -> Sequence[Path]:
        """The matrix as a heat map and as numbers, and what the paper says of it."""
        from galafed.report.heatmap import heatmap
        from galafed.report.words import with_note

        notes = done[0][1]["kept"]["notes"]
        matrix = {cell.row: _percent(summary["kept"]["tested_on"]) for cell, summary in done}
        records = [
            _record(trained, tested, value, summary, notes)
            for (cell, summary), (trained, row) in zip(done, matrix.items(), strict=True)
            for tested, value in row.items()
        ]
        network, mine = done[0][1]["network"], self.settings
        intro = (
            f"Made by `{command}` at commit {commit()} from {len(done)} runs on "
            f"{machines(summary for _, summary in done)}: `{network}` trained on the labels of one domain for "
            f"{mine.epochs} epochs with the learning rate of the other runs, seed {mine.seed}. The paper trained for "
            "500 epochs with a fixed 0.001, and shows the matrix as a picture only; on the diagonal, in brackets, the "
            "oracles of its Table 3. Rows: trained on; columns: tested on; test accuracy in %."
            f"{f' {edition}' if (edition := self.of_data()) else ''}"
        )
        names = [with_note(name, notes.get(name, "")) for name in self._domains]
        whole = len(matrix) == len(self._domains)
        content: dict[str, str | bytes] = {
            "table.json": as_json(records),
            "table.md": page(
                self.title,
                intro,
                "![Heat map](similarity.png)" if whole else "",
                _table(matrix, dict(zip(self._domains, names, strict=True)), mine.benchmark),
                f"From easy to hard, by accuracy on itself: {', '.join(easy_first(matrix))}.",
                "## Verdict",
                listed(_verdicts(matrix)),
            ),
        }
        if whole:
            values = [[matrix[name][tested] / 100 for tested in self._domains] for name in self._domains]
            title = f"{mine.benchmark}: {network} trained on one domain for {mine.epochs} epochs"
            content["similarity.png"] = heatmap(title, names, values)
        return write_files(folder, content)

    @cached_property
    def _domains(self) -> tuple[str, ...]:
        return benchmarks.get(self.settings.benchmark)().domains

    @cached_property
    def _tests(self) -> dict[str, tuple[Images, str]]:
        """Test images and note of every domain."""
        from galafed.runs.assembly import labelled

        settings: Any = build(benchmarks.get(self.settings.benchmark).Settings, self._edition, "")
        benchmark = benchmarks.get(self.settings.benchmark)(settings)
        loaded = {name: benchmark.load(name) for name in benchmark.domains}
        return {name: (labelled(domain.test), domain.note) for name, domain in loaded.items()}

    @cached_property
    def _edition(self) -> Mapping[str, Any]:
        return FIRST if benchmarks.get(self.settings.benchmark).family == DigitBenchmark.family else {}

    def _run(self, domain: str) -> dict[str, Any]:
        mine = self.settings
        return {
            **ON_A_GPU,
            "benchmark": mine.benchmark,
            mine.benchmark: self._edition,
            "target": domain,
            "sources": [next(name for name in self._domains if name != domain)],  # the oracle asks no source
            "algorithm": "oracle",
            "rounds": mine.epochs,
            "seed": mine.seed,
            "checkpoint_every": mine.epochs,
        }


def easy_first(matrix: Matrix) -> list[str]:
    """Domains by the accuracy of the model trained on them, the highest first."""
    return sorted(matrix, key=lambda name: -matrix[name][name])


def _percent(row: Mapping[str, float]) -> dict[str, float]:
    return {name: round(100 * value, 2) for name, value in row.items()}


def _record(
    trained: str, tested: str, value: float, summary: Mapping[str, Any], notes: Mapping[str, str]
) -> dict[str, Any]:
    on_itself = trained == tested and summary["benchmark"] == "digit-18"
    return {
        "row": trained,
        "column": tested,
        "mean": value,
        "std": 0.0,
        "seeds": 1,
        "rounds": summary["rounds"],
        "selection": "last",
        "paper": DIGIT_18["oracle"].get(trained) if on_itself else None,
        "stand_in": trained in notes or tested in notes,
    }


def _table(matrix: Matrix, domains: Mapping[str, str], benchmark: str) -> str:
    """The matrix; `domains` tells the names of rows and columns, with what is to be said of their data."""

    def cell(trained: str, tested: str) -> str:
        value = f"{matrix[trained][tested]:.1f}"
        paper = DIGIT_18["oracle"].get(trained) if trained == tested and benchmark == "digit-18" else None
        return f"**{value}**" + (f" ({paper:.1f})" if paper else "") if trained == tested else value

    rows = [[domains[trained], *(cell(trained, tested) for tested in domains)] for trained in matrix]
    return grid(["", *domains.values()], rows)


def measured(out: Path) -> dict[str, Mapping[str, float]]:
    """What was measured of the matrix as it is committed, not as `--set` may turn it: by the domain trained on."""
    found = archive.read(out / "similarity")
    recipes = {cell.row: archive.recipe(cell.run) for cell in SimilarityStudy().cells()}
    return {name: found[key]["kept"]["tested_on"] for name, key in recipes.items() if key in found}


def _verdicts(matrix: Matrix) -> list[str]:
    """The sentences of the paper that name domains, each with what was measured."""

    def found(trained: Sequence[str], tested: str) -> dict[str, float]:
        return {name: matrix[name][tested] for name in trained if name in matrix and tested in matrix[name]}

    lines = []
    if "mnist" in matrix and "mnistm" in matrix:
        plain, rich = matrix["mnist"], matrix["mnistm"]
        known = [name for name in CLEAN if name in plain]
        told = ", ".join(f"{name} {rich[name]:.1f} ({plain[name]:.1f})" for name in known)
        if "synm" in plain:
            lines.append(f"*MNIST does not carry over to SYNM*: {plain['synm']:.1f} %.")
        lines.append(
            f"*MNISTM carries over to simpler ones*: mnist {rich['mnist']:.1f}; {told}, in brackets from MNIST: better "
            f"than MNIST on {sum(rich[name] > plain[name] for name in known)} of {len(known)}."
        )
    for words, trained, tested, below in (
        ("All -M domains are below 25 % on SVHNXS", ("mnistm", "synm", "svhnm", "uspsm"), "svhnxs", 25),
        ("SVHN domains and SYNXS are below 50 % on MNISTM", SVHN_LIKE, "mnistm", 50),
    ):
        if values := found(trained, tested):
            told = ", ".join(f"{name} {value:.1f}" for name, value in values.items())
            right = sum(value < below for value in values.values())
            lines.append(f"*{words}*: {told}: {right} of {len(values)}.")
    alike = found([name for name in matrix if name != "svhnxs"], "svhnxs")
    if len(alike) > 1:
        (name, most), (other, next_one), *_ = sorted(alike.items(), key=lambda item: -item[1])
        verdict = "confirmed" if name == "synxs" else "not confirmed"
        lines.append(
            f"*SYNXS is the most similar source to SVHNXS*: {name} {most:.1f}, then {other} {next_one:.1f}: {verdict}."
        )
    others = [value for name, row in matrix.items() for tested, value in row.items() if tested != name]
    if others:
        own = fmean(matrix[name][name] for name in matrix)
        lines.append(f"Mean accuracy on the own domain {own:.1f} %, on others {fmean(others):.1f} %.")
    return lines
