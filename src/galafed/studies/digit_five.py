"""The paper's Table 1: accuracy on each target of Digit-Five, every system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.report.accuracy_table import Why
from galafed.reproduction import published
from galafed.reproduction.accuracy import ADAPTED, SYSTEMS, AccuracyStudy, Values
from galafed.reproduction.editions import Edition, of_edition
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
        "bounds have it too; `sweep` had the first edition of the data, with which "
        "most of this was measured too ([digit-five-first](../digit-five-first/table.md)). Higher ones, tried later, "
        "have less ([sweep-second](../sweep-second/table.md)). All but FACT and GALA have fewer rounds."
    )
    edition: ClassVar[Values] = {}
    """What is set of the data."""
    published: ClassVar[published.Table] = published.DIGIT_FIVE
    seeds: ClassVar[Mapping[str, int]] = {"FACT": 2, "GALA": 3}
    lower_bound: ClassVar[Mapping[str, str]] = dict.fromkeys(ADAPTED, "source-only")
    reasons: ClassVar[Mapping[str, Why]] = {
        "oracle": "On SYN it agrees because the recipe was chosen by this figure, which is probably that of "
        "KD3A's authors; the paper's own, in its Table 3, are 97.0 on SYN and 88.4 on SVHN. With the data of "
        "the first edition it is 8.1 points below the paper on SYN and 1.6 on USPS.",
        "source-only": f"{NOT_THIS_NETWORK}Why SYN and USPS are lower is not known; BatchNorm statistics of "
        "the sources are part of it: with the target's it gains 12 and 4 points.",
        "MDAN": f"{NOT_THIS_NETWORK}On MNIST-M and USPS it is below source-only with the target's statistics, by 2.7 "
        "and 3.3 points. Of 100 images of USPS 12.2 are sevens to it and 5.4 nines, where 8.5 and 8.8 are. 25 of "
        "100 rounds.",
        "M³SDA": f"{NOT_THIS_NETWORK}Its two classifiers, which have 25 million weights each here, come apart on the "
        "target: they differ by 0.2 to 0.7 after the first round and by 1.0 to 1.3, of at most 2, after the last, "
        "though G is to reconcile them in four of six steps, and errors on the sources become few. With the linear "
        "ones of its authors they differ by 0.003 in the end, and it has 99.1 on mnist and 94.1 on usps "
        "([digit-five-cut](../digit-five-cut/table.md)). 20 of 30 rounds.",
        "CMSS": f"{NOT_THIS_NETWORK}No code of it is public. On USPS it moves between 77 and 89 in the last ten "
        "rounds, which was not looked into. 25 of 100 rounds.",
        "DSBN": f"{NOT_THIS_NETWORK}Its second half, with pseudo-labels, gains 0.6 to 5.3 points; before it, it is "
        "above on all targets but usps already. Why is not known. 25 of 100 rounds.",
        "FADA": "The paper's row is FADA's own, with another network. Accuracy is best in round 6 on every target and "
        "falls then, while the loss falls on. With a linear predictor, as its authors had, it is within a point of the "
        "paper on mnist and four below on usps, and falls on svhn and syn after three rounds or fewer, from 53 and 52 "
        "([digit-five-cut](../digit-five-cut/table.md)). The weight of deceiving the discriminators and the rate, "
        "which never falls, are the published ones. 25 of 100 rounds.",
        "SHOT": f"{NOT_THIS_NETWORK}Before adaptation the mean of its four models has 50 on SVHN and 63 on SYN, where "
        "source-only has 71 and 76; adaptation loses 6 points on SVHN and gains 2 on SYN. That each model counts the "
        "same may be why; it was not tested. 16 of 31 rounds.",
        "SFDA": "Where the paper's row comes from is not told. With the network of KD3A's authors it has 13.7 points "
        "less on MNIST-M, and up to 1.6 less on the others ([digit-five-cut](../digit-five-cut/table.md)). SYN is "
        "drawn anew. On SVHN adaptation gains 7 points in two rounds and 0.4 in the others. 16 of 31 rounds.",
        "KD3A": f"{NOT_THIS_NETWORK}Its sources keep their predictors, which hold 25 million weights of this network. "
        "In that of its authors they are linear; with it, both with the first edition, it has 2 to 15 points more on "
        "mnist, mnistm, svhn and syn and 8.5 less on usps ([digit-five-cut-first](../digit-five-cut-first/table.md)). "
        "KD3A's authors pass over USPS's images about three times a round; whether that is why was not tested. 40 of "
        "100 rounds.",
        "FACT": "On SVHN it was still rising; the paper has 500 rounds. On SYN it is above: ours is drawn anew.",
        "GALA": {
            "all": "Higher learning rates have less on average over MNIST-M, SVHN and USPS, a stronger IGD hardly "
            "more (0.06 points; [sweep-second](../sweep-second/table.md)). The softmax of a softmax of FACT's code, "
            "with four times the rate, gains on no target ([digit-five-softmax](../digit-five-softmax/table.md)).",
            "mnistm": "Its seeds have 93.0, 92.4 and 92.3. It has a point more with the first edition, whose SYN "
            "teaches MNIST better ([syn](../syn/table.md)).",
            "svhn": "It is not for want of rounds: with the paper's 500 it has 89.5 "
            "([digit-five-rounds](../digit-five-rounds/table.md)). FACT is as far below the paper, and the oracle "
            "explains 0.4 of the 1.8 points. That our copy of SVHN has 28 pixels a side instead of 32 explains little: "
            "with four fewer still a plain network loses 0.4 with labels of SVHN and 0.1 with those of SYN "
            "([svhn-size](../svhn-size/table.md)). Of the sources SYN alone teaches SVHN: a model of it has 86 there, "
            "of the three others at most 24 ([similarity](../similarity/table.md), with the first edition); and it is "
            "drawn anew. With the first edition, the same SVHN, another SYN and division of USPS, GALA has nearly half "
            "a point more. The two groups still differ there in the end, by 0.29, on other targets by at most 0.16.",
            "usps": "Rounds may be a part of it: with the paper's 500 one seed has 97.5. Its seeds have 97.0, 95.8 "
            "and 97.3, and FACT's 97.7 and 97.8; 1860 images have a standard error of 0.4. It seems to take nines for "
            "sevens: of 100 images 10.3 are sevens to the third seed and 7.5 nines, where 8.5 and 8.8 are, and 9.8 "
            "and 7.8 after 500 rounds. MDAN, and M³SDA with linear classifiers, do so more. The groups agree on it, "
            "as they differ by 0.06 in all, so IGD has nothing to go by. Where predictors keep the sources' BatchNorm "
            "statistics USPS is within a point of the paper, with 97.9, and SVHN is not; with τ = 1 neither is "
            "([digit-five-open](../digit-five-open/table.md)). With nine sources the oracle's accuracy was reached "
            "there ([source-count](../source-count/table.md), first edition).",
            "syn": "It is above, as FACT is: ours is drawn anew.",
        },
    }

    def of_data(self) -> Edition:
        return of_edition(self.edition)

    def rows(self) -> Mapping[str, Values]:
        return {row: {"rounds": ROUNDS[row], **values} if row in ROUNDS else values for row, values in SYSTEMS.items()}

    def columns(self) -> Mapping[str, Values]:
        targets = benchmarks.get("digit-five").domains
        return {t: {"benchmark": "digit-five", "target": t, "digit-five": self.edition} for t in targets}
