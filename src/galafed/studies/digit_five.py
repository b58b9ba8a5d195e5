"""The paper's Table 1: accuracy on each target of Digit-Five, every system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.reproduction import published
from galafed.reproduction.accuracy import ADAPTED, SYSTEMS, AccuracyStudy, Values
from galafed.reproduction.editions import of_edition
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
        "bounds have it too; `sweep` had the first edition of the data. All but FACT and GALA have fewer rounds. MDAN, "
        "CMSS, DSBN, FADA and SFDA were measured with the first edition alone "
        "([digit-five-first](../digit-five-first/table.md))."
    )
    edition: ClassVar[Values] = {}
    """What is set of the data."""
    published: ClassVar[published.Table] = published.DIGIT_FIVE
    lower_bound: ClassVar[Mapping[str, str]] = dict.fromkeys(ADAPTED, "source-only")
    reasons: ClassVar[Mapping[str, str]] = {
        "oracle": "On SYN it agrees because the recipe was chosen by this figure, which is probably that of "
        "KD3A's authors; the paper's own, in its Table 3, are 97.0 on SYN and 88.4 on SVHN. With the data of "
        "the first edition it is 8.1 points below the paper on SYN and 1.6 on USPS.",
        "source-only": f"{NOT_THIS_NETWORK}Why SYN and USPS are lower is not known; BatchNorm statistics of "
        "the sources are part of it: with the target's it gains 12 and 4 points.",
        "SHOT": f"{NOT_THIS_NETWORK}Before adaptation the mean of its four models has 50 on SVHN and 63 on SYN, where "
        "source-only has 71 and 76; adaptation loses 6 points on SVHN and gains 2 on SYN. That each model counts the "
        "same may be why; it was not tested. 16 of 31 rounds.",
        "KD3A": f"{NOT_THIS_NETWORK}Its sources keep their predictors, which hold 25 million weights of this network. "
        "In that of its authors they are linear; with it, on data of the first edition, it is better on mnist, mnistm "
        "and svhn and eight points worse on usps ([digit-five-cut](../digit-five-cut/table.md)). KD3A's authors pass "
        "over USPS's images about three times a round; whether that is why was not tested. 40 of 100 rounds.",
        "FACT": "On SVHN, of which we have a copy of 28 pixels a side, it was still rising; the paper has 500 "
        "rounds. On SYN it is above: ours is drawn anew.",
        "GALA": "On SVHN FACT is as far below the paper, and the oracle explains 0.4 of the 1.7 points. Of the "
        "sources SYN alone teaches SVHN: a model of it has 86 there, of the three others at most 24 "
        "([similarity](../similarity/table.md), with the first edition); and it is drawn anew. With the first "
        "edition, the same SVHN and another SYN, GALA has 0.4 more. From round 60 to 100, of 500 in the paper, it "
        "gains 0.6, while the two groups differ as before (by 0.31 and 0.30, on other targets by at most 0.18 and "
        "0.16). On USPS its two seeds have 97.0 and 95.8, and FACT 97.7; 1860 images have a standard error of 0.4. "
        "The lower seed predicts classes less evenly: its mean prediction has 2.261 nats, that of the other seed "
        "2.267, FACT's 2.269, the oracle's 2.268; it is no less sure of single images, and its groups agree, so IGD "
        "has nothing to go by. It seems to take a class for another; so did one of three seeds with the first "
        "edition. With nine sources the oracle's accuracy was reached there "
        "([source-count](../source-count/table.md), first edition). On MNIST-M it has a point more with the first "
        "edition, whose SYN teaches MNIST better ([syn](../syn/table.md)). On SYN, as FACT, it is above: ours is "
        "drawn anew.",
    }

    def of_data(self) -> str:
        return of_edition(self.edition)

    def rows(self) -> Mapping[str, Values]:
        return {row: {"rounds": ROUNDS[row], **values} if row in ROUNDS else values for row, values in SYSTEMS.items()}

    def columns(self) -> Mapping[str, Values]:
        targets = benchmarks.get("digit-five").domains
        return {t: {"benchmark": "digit-five", "target": t, "digit-five": self.edition} for t in targets}
