"""The paper's Table 1: accuracy on each target of Digit-Five, every system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.reproduction import published
from galafed.reproduction.accuracy import ADAPTED, SYSTEMS, AccuracyStudy, Values
from galafed.studies.base import studies

SETTLED = dict.fromkeys(("oracle", "source-only", "source-only, target statistics"), 40)
CUT_SHORT = {"MDAN": 25, "M³SDA": 20, "CMSS": 25, "DSBN": 25, "FADA": 25, "SHOT": 16, "SFDA": 16, "KD3A": 40}
ROUNDS = SETTLED | CUT_SHORT
"""Where it is not the benchmark's or the method's own: bounds have settled by then; there was no time for the whole
of M³SDA (30), SHOT and SFDA (31), and of the others (100)."""

NOT_THIS_NETWORK = "The paper's row comes from KD3A's authors, with another network. "


@studies.register("digit-five")
class DigitFiveStudy(AccuracyStudy):
    """Five targets, four sources each."""

    title: ClassVar[str] = "Digit-Five: every system of the paper (its Table 1)"
    about: ClassVar[str] = (
        "The target is named on top; the four other domains are the sources. The learning rate, the highest that the "
        "study `sweep` tried, was chosen there without labels on runs of GALA; FACT, whose script has 0.005, and the "
        "bounds have it too. All but FACT and GALA have fewer rounds. USPS is divided as in the file of FACT and KD3A, "
        "7438 and 1860 images. How SYN is drawn was chosen by published figures of it and by labels of SVHN train "
        "images ([syn](../syn/table.md)), not by any system of this table; with the data of the first edition all was "
        "measured before ([digit-five-first](../digit-five-first/table.md))."
    )
    edition: ClassVar[Values] = {}
    """What is set of the data."""
    published: ClassVar[published.Table] = published.DIGIT_FIVE
    lower_bound: ClassVar[Mapping[str, str]] = dict.fromkeys(ADAPTED, "source-only")
    reasons: ClassVar[Mapping[str, str]] = {
        "oracle": "With the data of the first edition it is 8.1 points below the paper on SYN and 1.6 on USPS "
        "([digit-five-first](../digit-five-first/table.md)).",
        "source-only": f"{NOT_THIS_NETWORK}With the target's statistics it gains 12 points on SYN and 4 on USPS.",
        "SHOT": f"{NOT_THIS_NETWORK}It asks four adapted models and counts each the same, also those that know nothing "
        "like the target: on SVHN and SYN the sum has 50 and 63 before adaptation, and as good as nothing is gained by "
        "it. 16 of 31 rounds.",
        "KD3A": f"{NOT_THIS_NETWORK}Its sources keep their predictors, which hold 25 million weights of this network "
        "and are linear in theirs, with which it is better on mnist and mnistm "
        "([digit-five-cut](../digit-five-cut/table.md), on other data). On USPS they pass over the images three times "
        "a round. 40 of 100 rounds.",
        "FACT": "On SVHN, of which we have a copy of 28 pixels a side, it was still rising. The paper has 500 rounds.",
        "GALA": "On SVHN FACT is as far below the paper. On USPS FACT is within a point, and seeds of GALA differ "
        "by a point or more: not explained. The paper has 500 rounds.",
    }

    def rows(self) -> Mapping[str, Values]:
        return {row: {"rounds": ROUNDS[row], **values} if row in ROUNDS else values for row, values in SYSTEMS.items()}

    def columns(self) -> Mapping[str, Values]:
        targets = benchmarks.get("digit-five").domains
        return {t: {"benchmark": "digit-five", "target": t, "digit-five": self.edition} for t in targets}
