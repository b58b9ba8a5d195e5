"""The paper's Table 4: seconds of a round against the number of sources, KD3A, FACT and GALA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, median_low, pstdev
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.bounds import at_least, positive
from galafed.reproduction.measurement import Measurement, Record, Unit
from galafed.reproduction.pages import as_json, grid, listed, machines, page, table_cell, write_files
from galafed.reproduction.panels import picture
from galafed.reproduction.published import SECONDS_PER_ROUND
from galafed.studies.base import studies

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes

SYSTEMS = {"FACT": "fact", "GALA": "gala", "KD3A": "kd3a"}
WARM = {"FACT": 2, "GALA": 2, "KD3A": 1}
"""Rounds that are not timed; those of KD3A are the longest."""
GATE = 0.9
LINEAR = 3.0
"""Seconds for each source may differ by this factor where the cost is called proportional to their number."""
SLIGHTLY = 1.25
"""A cost up to so many times as high is slightly higher."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a round is made of. The paper's domains have 25000 images."""

    sources: tuple[int, ...] = (3, 5, 7, 9, 17)
    images: int = 25000
    network: str = "digit_cnn"
    size: int = 32
    """Side of an image in pixels."""
    engine: str = "stacked"
    rounds: int = 3
    """Rounds that are timed."""
    seconds: float = 2.5
    """No further round is timed after this long."""

    def __post_init__(self) -> None:
        for count in self.sources:
            at_least("sources", count, 2)
        at_least("rounds", self.rounds, 1)
        positive("seconds", self.seconds)


@studies.register("runtime")
class RuntimeStudy(Measurement):
    """Rounds of all clients on one device, timed in this process."""

    title: ClassVar[str] = "Seconds of a round (its Table 4)"
    Settings = Settings

    def units(self, device: str) -> Sequence[Unit]:
        """A system with a number of sources; the small numbers first."""
        mine: Settings = self.settings
        common = {
            "images": mine.images,
            "network": mine.network,
            "size": mine.size,
            "engine": mine.engine,
            "precision": "bfloat16" if device == "cuda" else "float32",
            "device": device,
        }
        # Told only where they are not the usual ones: what was measured before they were part of a recipe has one too.
        usual = {"rounds": Settings.rounds, "seconds": Settings.seconds}
        common |= {key: getattr(mine, key) for key, value in usual.items() if getattr(mine, key) != value}
        return [
            Unit(f"{row}, {count} sources", {"row": row, "sources": count, **common})
            for count in mine.sources
            for row in SYSTEMS
        ]

    def measure(self, unit: Unit, device: torch.device) -> Mapping[str, Any]:
        """The median round after warm-up; of KD3A also the consensus focus, which random images do not call for."""
        import torch

        from galafed.reproduction.timing import TimedRounds, timed_run

        mine: Settings = self.settings
        values = {key: value for key, value in unit.settings.items() if key not in ("rounds", "seconds")}
        row, count, kind = values.pop("row"), values.pop("sources"), values.pop("device")
        torch.set_num_threads(1)
        if kind == "cuda":
            torch.cuda.empty_cache()
        run = TimedRounds(timed_run(SYSTEMS[row], count, device=kind, **values))
        warm = [run.round(number) for number in range(WARM[row])]
        run.phases.clear()
        timed: list[float] = []
        while len(timed) < mine.rounds and sum(timed) < mine.seconds:
            timed.append(run.round(len(warm) + len(timed)))
        run.close()
        found = {
            "seconds": median_low(timed),  # of two, that without a graph to record
            "timed": timed,
            "warm_up": warm,
            "phases": {name: median(times) for name, times in run.phases.items()},
        }
        return found | (_focus(mine.images, count, device) if row == "KD3A" else {})

    def write(self, folder: Path, records: Sequence[Record], *, command: str) -> Sequence[Path]:
        """The table next to the paper's, and the curves."""
        cells = [_cell(measured) for measured in records]
        settings = records[0]["settings"]
        intro = (
            f"Made by `{command}` at commit {records[-1]['commit']} on {machines(records)}: engine "
            f"`{settings['engine']}`, {settings['precision']}, `{settings['network']}`, domains of "
            f"{settings['images']} random images, the median of up to {settings.get('rounds', Settings.rounds)} rounds "
            "after warm-up."
        )
        caution = (
            "**Ours and the paper's do not measure the same.** The paper's seconds are those of the slowest client "
            "alone on an A100, all others being thought of as working beside it; ours are those of all clients' work "
            "together on one device, with the server's and the evaluation. FACT asks two sources a round whatever "
            "their number. No source grows sure of random images, so KD3A's consensus focus is timed apart, on drawn "
            "votes of which a share is disputed, and added: once, so that a second more or less says little."
        )
        table = grid(["", *(f"{count} sources" for count in _counts(cells))], _rows(cells))
        focus = [
            f"{cell['sources']} sources: consensus focus {cell['focus_seconds']:.3f} s of {cell['mean']:.2f} s, "
            f"{100 * cell['disputed']:.0f} % of the images disputed, form `{cell['form']}`"
            for cell in cells
            if cell["focus_seconds"] is not None
        ]
        text = page(
            self.title,
            intro,
            caution,
            "Seconds of a round; in brackets the paper's.",
            table,
            "![Seconds of a round against the number of sources](runtime.png)",
            "## KD3A's consensus focus",
            listed(focus),
            "## Verdict",
            listed(_verdicts(cells)),
        )
        drawn = picture(self.title, ("seconds of a round",), lambda axes, _: _draw(axes, cells))
        return write_files(folder, {"table.json": as_json(cells), "table.md": text, "runtime.png": drawn})


def _focus(images: int, sources: int, device: torch.device) -> dict[str, Any]:
    from galafed.consensus_focus import best_form, consensus_focus
    from galafed.reproduction.timing import CLASSES, disputed, drawn_votes, shortest

    confidence, vote = drawn_votes(images, sources, device)
    seconds, _ = shortest(
        lambda: consensus_focus(confidence, vote, gate=GATE, classes=CLASSES, seed=1), device, repeats=1
    )
    return {
        "focus_seconds": seconds,
        "disputed": disputed(confidence, vote, GATE),
        "form": best_form(sources, GATE),
    }


def _cell(measured: Record) -> dict[str, Any]:
    """A cell of table.json."""
    found, settings = measured["found"], measured["settings"]
    as_in_paper = (settings["network"], settings["images"]) == ("digit_cnn", 25000)
    focus = found.get("focus_seconds")
    return table_cell(
        settings["row"],
        f"{settings['sources']} sources",
        round(found["seconds"] + (focus or 0.0), 4),
        unit="s",
        selection="median round",
        rounds=len(found["timed"]),
        std=round(pstdev(found["timed"]), 4),
        paper=SECONDS_PER_ROUND[settings["row"]].get(settings["sources"]) if as_in_paper else None,
        sources=settings["sources"],
        phases={name: round(value, 4) for name, value in found["phases"].items()},
        focus_seconds=focus,
        disputed=found.get("disputed"),
        form=found.get("form"),
        device=measured["device"],
    )


def _counts(cells: Sequence[Mapping[str, Any]]) -> list[int]:
    return sorted({cell["sources"] for cell in cells})


def _rows(cells: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    rows = []
    for row in dict.fromkeys(cell["row"] for cell in cells):
        found = {cell["sources"]: cell for cell in cells if cell["row"] == row}
        rows.append([row, *(_shown(found.get(count)) for count in _counts(cells))])
    return rows


def _shown(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "-"
    return f"{cell['mean']:.2f}" + (f" ({cell['paper']:g})" if cell["paper"] is not None else "")


def _verdicts(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """How each system grows from the fewest sources to the most, here and in the paper."""
    lines = [
        "Ours are the seconds of all clients on one device, the paper's those of the slowest client alone: so ours "
        "grow with the sources where the paper's need not."
    ]
    for row in dict.fromkeys(cell["row"] for cell in cells):
        ours = {cell["sources"]: cell["mean"] for cell in cells if cell["row"] == row}
        paper = _papers(cells, row)
        if len(paper) < 2:
            continue
        few, many, most = min(paper), max(paper), max(ours)
        beyond = f" To {most} sources it is {ours[most] / ours[few]:.1f} times." if most > many else ""
        lines.append(
            f"**{row}**: {ours[few]:.2f} s with {few} sources and {ours[many]:.2f} with {many} (paper {paper[few]:g} "
            f"and {paper[many]:g}), {ours[many] / ours[few]:.1f} times the seconds, the paper's "
            f"{paper[many] / paper[few]:.1f} times.{beyond}"
        )
    lines += _against_fact(cells)
    kd3a = {cell["sources"]: cell["mean"] for cell in cells if cell["row"] == "KD3A"}
    if len(kd3a) > 1:
        per_source = {count: seconds / count for count, seconds in kd3a.items()}
        spread = max(per_source.values()) / min(per_source.values())
        told = f"KD3A's seconds for each source lie within a factor of {spread:.1f} of one another"
        lines.append(
            f"{told}, up to {max(kd3a)} sources: what grows exponentially in the paper is a way to compute Shapley "
            "values; ours has a bad worst case too, which these votes are far from."
            if spread < LINEAR
            else f"{told}: more than a cost in proportion to the sources."
        )
    return lines


def _papers(cells: Sequence[Mapping[str, Any]], row: str) -> dict[int, float]:
    """The paper's seconds by the number of sources, where what was measured is of the paper's size."""
    return {cell["sources"]: cell["paper"] for cell in cells if cell["row"] == row and cell["paper"] is not None}


def _against_fact(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many times FACT's seconds GALA takes: here all clients' work, in the paper the slowest client's."""
    ours = {(cell["row"], cell["sources"]): cell["mean"] for cell in cells}
    counts = [n for n in _counts(cells) if ("GALA", n) in ours and ("FACT", n) in ours]
    gala, fact = (_papers(cells, row) for row in ("GALA", "FACT"))
    papers = [n for n in counts if n in gala and n in fact]
    if not papers:
        return []
    here = ", ".join(f"{ours['GALA', n] / ours['FACT', n]:.1f} with {n}" for n in counts)
    there = ", ".join(f"{gala[n] / fact[n]:.1f} with {n}" for n in papers)
    slightly = all(ours["GALA", n] <= SLIGHTLY * ours["FACT", n] for n in counts)
    return [
        f"*GALA incurs a slightly higher cost per round than FACT*: {here} sources times FACT's seconds here; by the "
        f"paper's own table {there}: {'' if slightly else 'not '}confirmed."
    ]


def _draw(axes: Axes, cells: Sequence[Mapping[str, Any]]) -> None:
    for colour, row in enumerate(dict.fromkeys(cell["row"] for cell in cells)):
        ours = sorted((cell["sources"], cell["mean"]) for cell in cells if cell["row"] == row)
        axes.plot(*zip(*ours, strict=True), "o-", color=f"C{colour}", label=f"{row}, all clients on one device")
        if not (paper := sorted(_papers(cells, row).items())):
            continue
        axes.plot(*zip(*paper, strict=True), "x--", color=f"C{colour}", alpha=0.6, label=f"{row}, paper: one client")
    axes.set_yscale("log")
    axes.set_xlabel("sources", fontsize=8)
    axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=6)
