"""The paper's figure of samples: a row for each domain of Digit-18, a column for each digit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from galafed.benchmarks.base import Benchmark, benchmarks
from galafed.digits.domains import DERIVED, EIGHTEEN, NINETEEN, base_of
from galafed.reproduction.pages import as_json, grid, listed, page, table_cell, write_files
from galafed.studies.base import Desk, Reproducible, commit, studies

PAPER = {"ardis": (6600, 1000), "ardis2": (6600, 1000), "tmnist": (22400, 7500)}
"""Training and test images of the domains whose numbers the paper tells."""
RENDERED = ("syn", "tmnist")
"""Bases that are drawn from fonts where the published files are not there."""
LICENSED = {"mnist": "CC BY-SA 3.0"}
"""Bases that anybody may show."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Which domains are shown."""

    benchmark: Literal["digit-18", "digit-five"] = "digit-18"
    domains: Literal["all", "free"] = "all"
    """free: those alone that may be published with this project: rendered here, or under a licence that lets us."""


@studies.register("samples")
class SamplesStudy(Reproducible):
    """The first training image of each class: the same ones whenever the sheet is drawn."""

    title: ClassVar[str] = "Samples of Digit-18 (its figure of samples)"
    Settings = Settings

    def carry_out(self, desk: Desk) -> Sequence[Path]:
        """Draw the sheet and list the domains."""
        from galafed.report.contact_sheet import contact_sheet, pick
        from galafed.report.words import with_note

        if desk.table:
            desk.say(f"{self.title}: drawn from the images themselves; gala reproduce {self.name} draws it again")
            return ()
        benchmark = benchmarks.get(self.settings.benchmark)()
        rows: dict[str, Mapping[str, Any]] = {}
        records = []
        for name in benchmark.domains:
            domain = benchmark.load(name)
            shown = self.settings.domains == "all" or may_be_published(name, domain.note)
            if shown:
                rows[with_note(name, domain.note)] = pick(domain.train, benchmark.classes, 1)
            records.append(_found(name, domain.note, len(domain.train), len(domain.test), shown=shown))
        desk.say(f"{self.title}: {len(rows)} of {len(records)} domains are shown")
        title = f"{benchmark.name}: {len(rows)} of {len(records)} domains, one training image of each class"
        return write_files(
            desk.out / self.name,
            {
                "table.json": as_json([each for found in records for each in _counted(found)]),
                "table.md": self._page(records, benchmark, self.command(desk)),
                "samples.png": contact_sheet(title, rows, benchmark.classes, 1),
            },
        )

    def progress(self, out: Path) -> tuple[int, int]:
        return int((out / self.name / "samples.png").exists()), 1

    def _page(self, records: Sequence[Mapping[str, Any]], benchmark: Benchmark, command: str) -> str:
        hidden = [found["domain"] for found in records if not found["shown"]]
        left_out = (
            f"Not shown here: {', '.join(hidden)}. Their images, or photographs in them, belong to others and are not "
            "published with this project; `gala reproduce samples` draws them from your own copies."
            if hidden
            else ""
        )
        counts = [
            [r["domain"], r["note"] or "-", r["made_from"], f"{r['train']} / {r['test']}", _paper(r)] for r in records
        ]
        return page(
            self.title,
            f"Made by `{command}` at commit {commit()}: the first training image of each class, "
            f"{benchmark.image_size} pixels a side, enlarged. A regenerated domain or a stand-in takes the place of "
            "files that could not be had, and is marked wherever its numbers appear. Images of MNIST and what is made "
            "of them: CC BY-SA 3.0. The accuracies of `digit-18` are of these images; those of `ablation`, "
            "`source-count`, `temperature` and `similarity` are of the first edition of the data, with another SYN "
            "and with 7291 and 2007 images of USPS.",
            "![Samples](samples.png)",
            left_out,
            grid(["domain", "note", "made from", "train / test", "paper's train / test"], counts),
            "## Verdict",
            listed(_verdicts(records)),
        )


def may_be_published(domain: str, note: str) -> bool:
    """Whether images of a domain may stand in a public picture: not of photographs, nor of sets that do not say so."""
    photographs = domain in DERIVED and DERIVED[domain][1] == "photo"
    base = base_of(domain)
    return not photographs and (base in LICENSED or (base in RENDERED and bool(note)))


def _found(name: str, note: str, train: int, test: int, *, shown: bool) -> dict[str, Any]:
    base, dress = DERIVED.get(name, ("", ""))
    paper = PAPER.get(name)
    return {
        "domain": name,
        "note": note,
        "stand_in": bool(note),
        "made_from": f"{base}, {dress}" if base else "files of its own",
        "train": train,
        "test": test,
        "paper": {"train": paper[0], "test": paper[1]} if paper else None,
        "shown": shown,
    }


def _verdicts(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What of the paper's figure is here: the domains, their numbers of images, and which are not its own."""
    names = [found["domain"] for found in records]
    if set(EIGHTEEN) <= set(names):
        left_out = [name for name in NINETEEN if name not in names]
        told = f", of which {', '.join(left_out)} is left out ([why](../../docs/benchmarks.md))" if left_out else ""
        yield f"*18 domains*: {len(names)} here. The paper's lists name 19{told}."
    for found in records:
        if paper := found["paper"]:
            same = paper == {"train": found["train"], "test": found["test"]}
            note = f", a {found['note']}" if found["note"] else ""
            verdict = "as many" if same else f"{found['train']} and {found['test']} here{note}"
            yield f"*{found['domain']} has {paper['train']} and {paper['test']} images*: {verdict}."
    if others := [found["domain"] for found in records if found["stand_in"]]:
        yield f"Not the paper's images: {', '.join(others)}."


def _counted(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cells of a domain: how many images of each split there are."""
    return [
        table_cell(
            found["domain"],
            split,
            found[split],
            unit="images",
            selection="all",
            paper=found["paper"] and found["paper"][split],
            stand_in=found["stand_in"],
            note=found["note"],
            made_from=found["made_from"],
            shown=found["shown"],
        )
        for split in ("train", "test")
    ]


def _paper(found: Mapping[str, Any]) -> str:
    paper = found["paper"]
    return f"{paper['train']} / {paper['test']}" if paper else "-"
