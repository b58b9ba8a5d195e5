"""Accuracy against the number of sources, 4 to 17: Digit-Five's targets, with ever more domains of Digit-18."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.config import Run, resolve
from galafed.digits.domains import DIGIT_FIVE, EIGHTEEN
from galafed.errors import ConfigError
from galafed.reproduction.accuracy import SYSTEMS, AccuracyStudy, Done, Values, last_rounds
from galafed.reproduction.editions import FIRST, OF_FIRST, Edition
from galafed.reproduction.pages import signed
from galafed.reproduction.panels import picture
from galafed.reproduction.steadiness import curves_of, moves_of
from galafed.runs import archive
from galafed.studies import similarity
from galafed.studies.base import Cell, studies
from galafed.studies.digit_five import ROUNDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ADDED = tuple(name for name in EIGHTEEN if name not in DIGIT_FIVE)
FEW = 9
"""Beyond so many sources the paper's figure has no KD3A, for its runtime there."""
RIVALS = ("KD3A", "FACT")
CAUTION = {
    "KD3A": "KD3A has 40 rounds, GALA 60, and on mnistm, svhn and syn it was still rising, with every number of "
    "sources. What it loses there from 4 to 9 may come of weights that hardly tell sources apart: for svhn, of which "
    "syn alone of these sources knows much ([similarity](../similarity/table.md)), syn has 0.34 with four sources, "
    "and with nine 0.14, the others 0.08 to 0.13. With the network of its authors and four sources KD3A has 82.9 on "
    "syn, more than GALA here, and less than GALA with 100 rounds, 83.3 "
    "([digit-five-cut-first](../digit-five-cut-first/table.md), [digit-five-first](../digit-five-first/table.md)).",
    "FACT": "On syn, with up to 13 sources, FACT moves by 2 to 3 points a round in the last twenty, so its last round "
    "tells little: over the last ten GALA is ahead by 1.0 with 6 sources and behind by 0.3 with 17. "
    "With four sources and 100 rounds instead of 60 FACT is within a point everywhere, GALA with τ = 0.2 "
    "([digit-five-first](../digit-five-first/table.md)).",
}
"""What else is to be known."""
BETWEEN_RUNS = (
    "The paper may mean its five runs, of which one seed a cell tells nothing; with seventeen sources three seeds of "
    "FACT end with 61.0, 86.5 and 86.9 on SVHNXS ([digit-18](../digit-18/table.md))"
)
CLEAR = 1.0
"""Points that one system has to be ahead of another to be called so."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Which numbers of sources, and in which order domains are added."""

    counts: tuple[int, ...] = (4, 6, 9, 13, 17)
    rounds: int = 60
    order: tuple[str, ...] = ()
    """The thirteen domains beyond Digit-Five; as the study `similarity` found them, easy first, if empty."""

    def __post_init__(self) -> None:
        if self.order and sorted(self.order) != sorted(ADDED):
            raise ConfigError(f"order = {', '.join(self.order)}: name each of {', '.join(ADDED)} once")
        if not self.counts or not all(4 <= count <= 17 for count in self.counts):
            raise ConfigError(f"counts = {list(self.counts)}: must be numbers from 4 to 17")


@studies.register("source-count")
class SourceCountStudy(AccuracyStudy):
    """The four other domains of Digit-Five, then one more at a time."""

    title: ClassVar[str] = "Accuracy against the number of sources (its figure on source count)"
    about: ClassVar[str] = (
        "The column is the target and the number of sources: the four other domains of Digit-Five, then domains of "
        "Digit-18, easy ones first. (The paper says increasing difficulty and lowest self-performance first, which "
        "contradict each other; it shows the figure as curves only.) Late come "
        "domains that are made of the train images of the target: SVHN's, with labels, in SVHNSTACK, SVHNXS and SVHNM, "
        "and SYN's likewise. KD3A, which the paper's figure has with up to nine sources, has the rounds of the study "
        "`digit-five-first`."
    )
    seeds: ClassVar[Mapping[str, int]] = {}
    Settings = Settings

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self.order: tuple[str, ...] = self.settings.order or ADDED

    def of_data(self) -> Edition:
        return OF_FIRST

    def rows(self) -> Mapping[str, Values]:
        return {row: SYSTEMS[row] for row in (*RIVALS, "GALA")}

    def cells(self) -> Sequence[Cell]:
        """Every row in every column, but as in the paper's figure KD3A with few sources alone."""
        every = [cell for cell in super().cells() if cell.row != "KD3A" or len(cell.run.sources) <= FEW]
        return [replace(cell, run=self._as_in_table_1(cell.run)) if cell.row == "KD3A" else cell for cell in every]

    def _as_in_table_1(self, run: Run) -> Run:
        """As many rounds as KD3A has in the study `digit-five-first`; with its sources, the run is one of its runs."""
        five = len(run.sources) == len(DIGIT_FIVE) - 1
        name = "digit-five" if five else "digit-18"
        place = {"benchmark": name, name: FIRST, **({} if five else {"sources": list(run.sources)})}
        mine = {**self.common, **SYSTEMS["KD3A"], "rounds": ROUNDS["KD3A"], "target": run.target, "seed": run.seed}
        return resolve({**mine, **place})

    def columns(self) -> Mapping[str, Values]:
        return {
            f"{target}, {count}": {
                "benchmark": "digit-18",
                "digit-18": FIRST,
                "target": target,
                "sources": self._sources(target, count),
                "rounds": self.settings.rounds,
            }
            for target in DIGIT_FIVE
            for count in self.settings.counts
        }

    def prepare(self, out: Path) -> None:
        """Easy first, by the accuracy of models trained and tested on the same domain."""
        if self.settings.order:
            return
        matrix = {name: row for name, row in similarity.measured(out).items() if name in ADDED}
        if missing := [name for name in ADDED if name not in matrix]:
            raise ConfigError(
                f"the order in which domains are added is not known yet, for lack of {', '.join(missing)}: run "
                "'gala reproduce similarity' first, or give it: --set 'order=[\"tmnist\", …]'"
            )
        self.order = tuple(similarity.easy_first(matrix))

    def told(self) -> str:
        return f"{self.about} Added in this order: {', '.join(self.order)}."

    def claims(self, done: Done) -> Iterable[str]:
        last, counts = last_rounds(done), sorted(self.settings.counts)

        def gained(row: str, fewer: int, more: int) -> dict[str, float]:
            """By how much a system is better with more sources, as told, by target."""
            ends = {t: [last.get((row, f"{t}, {count}")) for count in (fewer, more)] for t in DIGIT_FIVE}
            return {t: round(high - low, 1) for t, (low, high) in ends.items() if low is not None and high is not None}

        fewest, most = counts[0], counts[-1]
        if fewest < most and (gala := gained("GALA", fewest, most)):
            late = gained("GALA", FEW, most) if fewest < FEW < most else {}
            yield (
                f"*Across all targets GALA improves with more sources*: from {fewest} to {most} sources "
                f"{signed(gala)}: {sum(change > 0 for change in gala.values())} of {len(gala)}"
                + (f"; of this from {FEW} on {signed(late)}." if late else ".")
            )
        at_first = []
        for row in (*RIVALS, "GALA"):
            for count in counts:
                if fewest < count <= FEW and (early := gained(row, fewest, count)):
                    better = sum(change > CLEAR for change in early.values())
                    words = f"{row} from {fewest} to {count} {signed(early)}, more than a point on {better}"
                    at_first.append((words, better == len(early)))
        if at_first:
            verdict = "confirmed" if all(yes for _, yes in at_first) else "not confirmed of all targets"
            yield (
                f"*All methods benefit from additional sources at first*: {'; '.join(words for words, _ in at_first)}: "
                f"{verdict}."
            )
        if fewest < FEW in counts and (early := gained("KD3A", fewest, FEW)):
            lost = {target: change for target, change in early.items() if change < -CLEAR}
            told = f"on {signed(lost)}: not confirmed" if lost else "on none: confirmed"
            yield (
                f"*KD3A remains robust*: from {fewest} to {FEW} sources it loses more than a point {told}, after "
                f"{ROUNDS['KD3A']} of the 100 rounds of its authors."
            )
        yield from self._steadiness(done)
        for rival in RIVALS:
            cells = [column for row, column in last if row == "GALA" and (rival, column) in last]
            gaps = {f"{column} sources": round(last["GALA", column] - last[rival, column], 1) for column in cells}
            if not gaps:
                continue
            ahead = sum(gap > CLEAR for gap in gaps.values())
            behind = {column: gap for column, gap in gaps.items() if gap < -CLEAR}
            told = f"; behind on {signed(behind)}" if behind else ""
            planned = sum(cell.row == rival for cell in self.cells())
            yield (
                f"*GALA consistently outperforms {rival}*: by more than a point in {ahead} of {len(gaps)} cells, "
                f"within a point in {len(gaps) - ahead - len(behind)}{told}."
                + (f" Of {planned} cells that {rival} is to have." if len(gaps) < planned else "")
                + (f" {CAUTION[rival]}" if fewest == len(DIGIT_FIVE) - 1 else "")
            )

    def _steadiness(self, done: Done) -> Iterable[str]:
        """How much accuracy moves between rounds, by the number of sources, over targets that every number has."""
        counts = sorted(self.settings.counts)
        if not counts[0] <= FEW < counts[-1]:
            return
        told, verdicts, on = [], [], ""
        for row in ("FACT", "GALA"):
            curves = {(t, count): curves_of(row, f"{t}, {count}", done) for t in DIGIT_FIVE for count in counts}
            whole = [t for t in DIGIT_FIVE if all(curves[t, count] for count in counts)]
            if whole:
                moves = [fmean(moves_of(curves[t, count]) for t in whole) for count in counts]
                told.append(f"{row} {' / '.join(f'{value:.2f}' for value in moves)}")
                on = ", ".join(whole)
                sides = [[m for m, n in zip(moves, counts, strict=True) if (n > FEW) == more] for more in (0, 1)]
                grows = fmean(sides[1]) > fmean(sides[0])
                verdicts.append(f"{'' if grows == (row == 'FACT') else 'not '}confirmed of {row}")
        if told:
            yield (
                f"*FACT becomes unstable beyond {FEW} sources, GALA stays stable*: points that accuracy moves from a "
                f"round to the next in the second half of the rounds, mean over {on}, with "
                f"{' / '.join(map(str, counts))} sources: {', '.join(told)}: {', '.join(verdicts)}."
                + (f" {BETWEEN_RUNS}." if "not confirmed of FACT" in verdicts else "")
            )

    def pictures(self, done: Done) -> Mapping[str, bytes]:
        """A panel of curves for each target."""

        def draw(axes: Axes, target: str) -> None:
            axes.set_xlim(min(self.settings.counts) - 1, max(self.settings.counts) + 1)
            _draw(axes, target, done)

        return {"source-count.png": picture(self.title, DIGIT_FIVE, draw)}

    def _sources(self, target: str, count: int) -> list[str]:
        own = [name for name in DIGIT_FIVE if name != target]
        return sorted([*own, *self.order[: count - len(own)]])


def _draw(axes: Axes, target: str, done: Done) -> None:
    axes.set_xlabel("sources", fontsize=8)
    axes.set_ylabel("test accuracy, %", fontsize=8)
    found: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell, summary in done:
        if cell.run.target == target:
            found[cell.row][len(cell.run.sources)].append(archive.accuracy(summary))
    for row, values in found.items():
        counts = sorted(values)
        axes.plot(counts, [fmean(values[count]) for count in counts], "o-", lw=1.3, label=row)
    if found:
        axes.legend(fontsize=7)
