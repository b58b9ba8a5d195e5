"""The paper's Table 3: nine targets of Digit-18, FACT and GALA; and KD3A, which it could not run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, ClassVar

from galafed.digits.domains import base_of
from galafed.report.verdict import Why
from galafed.reproduction import published
from galafed.reproduction.accuracy import SYSTEMS, AccuracyStudy, Done, Values
from galafed.reproduction.editions import FIRST, REDRAWN, Edition, of_edition
from galafed.reproduction.history import accuracies, late_rise
from galafed.studies.base import Cell, studies

TARGETS = tuple(published.DIGIT_18["GALA"])
ROUNDS = {"KD3A": 20}
"""Where it is not 60: there was no time for its own 100."""
HARD = ("mnistm", "svhnxs")
"""The two that the paper looks into where FACT fluctuates: these have several seeds."""
CLEAR = 1.0
"""Points that accuracy has to gain in the last quarter of the rounds to be called rising."""


@studies.register("digit-18")
class Digit18Study(AccuracyStudy):
    """Nine targets, seventeen sources each."""

    title: ClassVar[str] = "Digit-18: nine targets with seventeen sources (its Table 3)"
    about: ClassVar[str] = (
        "The target is named on top; the seventeen other domains are the sources. Some are made of the same images: "
        "SVHN's train images with labels are among the sources of SVHNXS, and the other way round, so a system can be "
        "better than the oracle. The paper's averages of FACT and GALA (87.6 and 92.9) repeat its last column; those "
        "in brackets are computed. The oracle learns from its target alone; where SYN and USPS are not in it, its runs "
        "are those of the study `digit-18-first`."
    )
    edition: ClassVar[Values] = {}
    """What is set of the data."""
    published = published.DIGIT_18
    seeds: ClassVar[Mapping[str, int]] = {"FACT": 3, "GALA": 2}
    reasons: ClassVar[Mapping[str, Why]] = {
        "oracle": "The paper's oracle of SVHN is 92.3 in its Table 1 and 88.4 in this one; ours is like the former, "
        "and on SVHNXS and SVHNSTACK, made of the same images, it is further above. SYNM, made of a regenerated SYN, "
        "is much easier than the paper's; with the first edition it was harder "
        "([digit-18-first](../digit-18-first/table.md)). Of how photographs are laid under USPS and SYN the "
        "paper says that it is as in MNIST-M, and no more.",
        "FACT": "On SYN, SYNM and USPSM the oracle is above the paper's too, by four fifths as much or more; on MNISTM "
        "it explains a quarter. FACT has the learning rate that was chosen for GALA, its authors' script has a "
        "smaller one. On SVHNXS its seeds have 86.5, 86.9 and 61.0: SYNXS, the one source that knows much of it "
        "([similarity](../similarity/table.md), with the first edition), was in 9, 8 and 2 of the 60 pairs.",
        "GALA": {
            "mean": "SYNM and USPSM lift it: there the oracle is above the paper's by more than GALA is. Without SYN "
            "and SYNM, which are regenerated, GALA has 95.2 on average (95.0), without USPSM too 95.1 (95.4).",
            "svhn and svhnstack": "On both it was still rising; the paper has 500 rounds, and more than 60 were not "
            "tried here. SYN and what is made of it have six tenths of the relevance there, and with the SYN of the "
            "first edition GALA is within a point of the paper on both "
            "([digit-18-first](../digit-18-first/table.md)).",
            "syn": "FACT is ahead by 0.2; 9000 images have a standard error of 0.1.",
        },
    }

    def of_data(self) -> Edition:
        return of_edition(self.edition)

    def rows(self) -> Mapping[str, Values]:
        return {row: {"rounds": ROUNDS.get(row, 60), **SYSTEMS[row]} for row in ("oracle", "KD3A", "FACT", "GALA")}

    def columns(self) -> Mapping[str, Values]:
        return {target: {"benchmark": "digit-18", "target": target, "digit-18": self.edition} for target in TARGETS}

    def claims(self, done: Done) -> Iterable[str]:
        """What KD3A does here, of which the paper has no figures."""
        ours, gala = ({c.column: s for c, s in done if c.row == row and not c.run.seed} for row in ("KD3A", "GALA"))
        if not set(TARGETS) <= ours.keys() & gala.keys():
            return
        rounds = min(len(accuracies(summary)) for summary in ours.values())
        rising = [target for target in TARGETS if late_rise(ours[target]) > CLEAR]
        mine, theirs = (fmean(_after(rounds, summary) for summary in each.values()) for each in (ours, gala))
        yield (
            f"*KD3A is excluded beyond 9 sources due to exponential runtime*: with 17 it takes {_seconds(ours)} s a "
            f"round here, several runs at a time on one GPU, GALA {_seconds(gala)} s. After {rounds} of the 100 rounds "
            f"of its authors it has {mine:.1f} on average, and GALA {theirs:.1f} after {rounds} of its 60; KD3A was "
            f"still rising on {', '.join(rising)}."
        )

    def cells(self) -> Sequence[Cell]:
        """One seed but on hard targets. An oracle sees its target alone: where that is the same in both editions, the
        run is that of the first."""

        def unchanged(cell: Cell) -> bool:
            return cell.row == "oracle" and base_of(cell.column) not in REDRAWN

        cells = [cell for cell in super().cells() if not cell.run.seed or cell.column in HARD]
        return [_with_first(cell) if unchanged(cell) else cell for cell in cells]


def _after(rounds: int, summary: Mapping[str, Any]) -> float:
    """Test accuracy in percent after so many rounds."""
    return dict(accuracies(summary))[rounds]


def _seconds(summaries: Mapping[str, Mapping[str, Any]]) -> str:
    """From the fastest of these runs to the slowest."""
    found = [summary["seconds_per_round"] for summary in summaries.values()]
    return f"{min(found):.0f} to {max(found):.0f}"


def _with_first(cell: Cell) -> Cell:
    run = cell.run
    return replace(cell, run=replace(run, benchmark_settings=replace(run.benchmark_settings, **FIRST)))
