"""The paper's Table 1: accuracy on each target of Digit-Five, every system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.reproduction import published
from galafed.reproduction.accuracy import SYSTEMS, AccuracyStudy, Values
from galafed.studies.base import studies

SETTLED = dict.fromkeys(("oracle", "source-only", "source-only, target statistics"), 40)
CUT_SHORT = {"MDAN": 40, "M³SDA": 20, "CMSS": 40, "DSBN": 40, "FADA": 40, "SHOT": 16, "SFDA": 16, "KD3A": 40}
ROUNDS = SETTLED | CUT_SHORT
"""Where it is not the benchmark's or the method's own: bounds have settled by then; there was no time for the whole
of M³SDA (30), SHOT and SFDA (31), and of the others (100)."""


@studies.register("digit-five")
class DigitFiveStudy(AccuracyStudy):
    """Five targets, four sources each."""

    title: ClassVar[str] = "Digit-Five: every system of the paper (its Table 1)"
    about: ClassVar[str] = (
        "The target is named on top; the four other domains are the sources. The learning rate, the highest that the "
        "study `sweep` tried, was chosen there without labels on runs of GALA; FACT, whose script has 0.005, and the "
        "bounds have it too. All but FACT and GALA have fewer rounds."
    )
    published = published.DIGIT_FIVE
    lower_bound: ClassVar[Mapping[str, str]] = dict.fromkeys(("SHOT", "KD3A", "FACT", "GALA"), "source-only")
    reasons: ClassVar[Mapping[str, str]] = {
        "oracle": "SYN is regenerated, and harder than the published set; USPS has its original split (7291 and 2007 "
        "images).",
        "source-only": "SYN is regenerated; on USPS not explained.",
        "KD3A": "Its sources keep their predictors, which hold 25 million weights of this network; the paper's row "
        "comes from KD3A's authors, whose predictors are linear. With their network, whose convolutions differ too, "
        "it is within 1 point of that row on mnist and mnistm in the same 40 rounds, above it on svhn and below it on "
        "syn and usps ([digit-five-cut](../digit-five-cut/table.md)), on usps more than here; KD3A's authors have 100.",
        "SHOT": "On SVHN and SYN accuracy falls from the second round on. The cut may be why: the predictor, which "
        "stays frozen, holds nearly all weights of this network, where SHOT's holds one layer, and the paper's row "
        "comes from KD3A's authors, with another network; but on mini a linear predictor hardly helps it "
        "([mini-cut](../mini-cut/table.md)). 16 of 31 rounds.",
        "FACT": "SYN is regenerated, and the oracle is lower on it too; on USPS the oracle explains most of the gap. "
        "The paper has 500 rounds.",
        "GALA": "SYN is regenerated, and the oracle is lower on it too; on USPS the oracle explains more than half of "
        "the gap, on SVHN, of which we have a copy of 28 pixels a side, a third. The rest is not explained; the "
        "paper has 500 rounds.",
    }

    def rows(self) -> Mapping[str, Values]:
        return {row: {"rounds": ROUNDS[row], **values} if row in ROUNDS else values for row, values in SYSTEMS.items()}

    def columns(self) -> Mapping[str, Values]:
        return {
            target: {"benchmark": "digit-five", "target": target} for target in benchmarks.get("digit-five").domains
        }
