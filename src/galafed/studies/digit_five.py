"""The paper's Table 1: accuracy on each target of Digit-Five, every system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.report.verdict import Why
from galafed.reproduction import published
from galafed.reproduction.accuracy import ADAPTED, SYSTEMS, AccuracyStudy, Done, Values, last_rounds
from galafed.reproduction.editions import Edition, of_edition
from galafed.reproduction.pages import signed
from galafed.studies.base import studies

SETTLED = dict.fromkeys(("oracle", "source-only", "source-only, target statistics"), 40)
CUT_SHORT = {"MDAN": 25, "M³SDA": 20, "CMSS": 25, "DSBN": 25, "FADA": 25, "SHOT": 16, "SFDA": 16, "KD3A": 40}
ROUNDS = SETTLED | CUT_SHORT
"""Where it is not the benchmark's or the method's own: bounds have settled by then; there was no time for the whole
of M³SDA (30), SHOT and SFDA (31), and of the others (100)."""

MOST_BEHIND, MARGINAL = 2, 0.5
"""On how many targets GALA is behind in the paper, and how many points are still around 0.2."""

NOT_THIS_NETWORK = (
    "The paper does not say where this row comes from; probably from KD3A's paper, whose network is another one. "
)


@studies.register("digit-five")
class DigitFiveStudy(AccuracyStudy):
    """Five targets, four sources each."""

    title: ClassVar[str] = "Digit-Five: every system of the paper (its Table 1)"
    about: ClassVar[str] = (
        "The target is named on top; the four other domains are the sources. The learning rate, the highest that the "
        "study `sweep` tried, was chosen there without labels on runs of GALA; FACT, whose script has 0.005, the "
        "bounds, MDAN, CMSS and DSBN have it too; `sweep` had the first edition of the data, with which most of this "
        "was measured too ([digit-five-first](../digit-five-first/table.md)). Higher ones, tried later, have less on "
        "average, with one seed and 20 rounds ([sweep-second](../sweep-second/table.md)); lower ones with more rounds, "
        "one seed, have more on SVHN, and GALA less on USPS ([digit-five-rounds](../digit-five-rounds/table.md)). All "
        "but FACT and GALA have "
        "fewer rounds."
    )
    edition: ClassVar[Values] = {}
    """What is set of the data."""
    published: ClassVar[published.Table] = published.DIGIT_FIVE
    seeds: ClassVar[Mapping[str, int]] = {"FACT": 2, "GALA": 3}
    lower_bound: ClassVar[Mapping[str, str]] = dict.fromkeys(ADAPTED, "source-only")
    reasons: ClassVar[Mapping[str, Why]] = {
        "oracle": "On SYN it agrees because the recipe was chosen by this figure, which is probably that of "
        "KD3A's authors; the paper's own, in its Table 3, are 97.0 on SYN and 88.4 on SVHN. With the data of "
        "the first edition it is 8.1 points below the paper on SYN and 1.6 on USPS. Why it is above on MNIST-M is not "
        "known.",
        "source-only": f"{NOT_THIS_NETWORK}Why SYN and USPS are lower is not known. With the target's BatchNorm "
        "statistics it gains 12 and 4 points.",
        "MDAN": f"{NOT_THIS_NETWORK}On MNIST-M and USPS it is below source-only with the target's statistics, by 2.7 "
        "and 3.3 points. It takes nines of USPS for sevens ([why](../usps-frame/table.md)): of 100 train images 12.2 "
        "are sevens to it and 5.4 nines, where 8.6 and 8.9 are. 25 of 100 rounds.",
        "M³SDA": f"{NOT_THIS_NETWORK}Its two classifiers, which have 25 million weights each here, come apart on the "
        "target: they differ by 0.2 to 0.7 after the first round and by 1.0 to 1.3, of at most 2, after the last, "
        "though G is to reconcile them in four of six steps. With the network of its authors, whose classifiers are "
        "linear and whose convolutions are others too, they differ by 0.002 and 0.003 in the end on the two targets "
        "that were measured, and it has 99.1 on mnist and 94.1 on usps "
        "([digit-five-cut](../digit-five-cut/table.md)). 20 of 30 rounds.",
        "CMSS": f"{NOT_THIS_NETWORK}No code of it is public. On USPS it moves between 77 and 89 in the last ten "
        "rounds, which was not looked into. 25 of 100 rounds.",
        "DSBN": f"{NOT_THIS_NETWORK}Its second half, with pseudo-labels, gains 0.6 to 5.3 points; before it, it is "
        "above on all targets but usps already. Why is not known. 25 of 100 rounds.",
        "FADA": "The paper's row is FADA's own, with another network. Accuracy is best in round 6 on every target and "
        "falls then. With a network whose predictor is linear it is within a point of the paper on mnist and four "
        "below on usps; on mnistm, svhn and syn it is best after three rounds or fewer, with 58, 53 and 52, and ends "
        "11 to 36 points below the paper ([digit-five-cut](../digit-five-cut/table.md)). Why is not known. The weight "
        "of deceiving the discriminators and the rate, which never falls, are those of a public derivative. 25 of 100 "
        "rounds.",
        "SHOT": f"{NOT_THIS_NETWORK}Before adaptation the mean of its four models has 50 on SVHN and 63 on SYN, where "
        "source-only has 71 and 76; adaptation loses 6 points on SVHN and gains 2 on SYN. That each model counts the "
        "same may be why; it was not tested. 16 of 31 rounds.",
        "SFDA": "The paper does not say where this row comes from. With the network that KD3A's authors used it has "
        "13.7 points less on MNIST-M, and up to 1.6 less on the others "
        "([digit-five-cut](../digit-five-cut/table.md)). SYN is drawn anew. On SVHN adaptation gains 7 points in two "
        "rounds and 0.4 in the others. 16 of 31 rounds.",
        "KD3A": f"{NOT_THIS_NETWORK}Its sources keep their predictors, which hold 25 million weights of this network. "
        "KD3A's authors had a network with linear predictors, and other convolutions. With that KD3A has 2 to 15 "
        "points more on mnist, mnistm, svhn and syn and 8.5 less on usps, both measured with the first edition of the "
        "data ([digit-five-cut-first](../digit-five-cut-first/table.md)). "
        "KD3A's authors pass over USPS's images about three times a round; whether that is why was not tested. 40 of "
        "100 rounds.",
        "FACT": "On SVHN it rose by 1.0 in the last quarter of the rounds; with 200 rounds and half the rate one seed "
        "has 90.4 there, within a point of the paper ([digit-five-rounds](../digit-five-rounds/table.md)). On SYN it "
        "is above: ours is drawn anew. On MNIST-M it is 1.5 above, as the oracle is; why is not known.",
        "GALA": {
            "all": "Twice and four times the learning rate have less on average over MNIST-M, SVHN and USPS, twice the "
            "IGD as much (0.06 points more); target by target each of them is ahead somewhere (20 rounds, one seed; "
            "[sweep-second](../sweep-second/table.md)). The softmax of a softmax of FACT's code, with four times the "
            "rate, gains on no target in 100 rounds, one seed, though it was still rising on three "
            "([digit-five-softmax](../digit-five-softmax/table.md)). With 200 rounds, half the rate and predictors "
            "that keep the sources' BatchNorm statistics it has 95.0, as the first seed of this row (95.1), more of it "
            "on MNIST-M and SYN, less on USPS ([digit-five-rounds](../digit-five-rounds/table.md), one seed). Five "
            "runs with 500 rounds and a quarter of the rate were cut off after 292 to 327 rounds; over their last ten "
            "they have 95.4, where the seeds of this row have 95.1, 94.7 and 94.9 over theirs, and without SYN 94.9, "
            "where these have 94.7, 94.3 and 94.6. Not tried: all of FACT's code at once, a weak discrepancy with "
            "0.005 and momentum that is kept; the first two were, each alone, in 20 rounds "
            "([sweep](../sweep/table.md)). FACT is tested with the surer of its two heads, as in its code, GALA with "
            "the merged one, as in the paper.",
            "mnistm": "Its seeds have 93.0, 92.4 and 92.3. It has 1.3 points more with the first edition of the data; "
            "why is not known. In the paper it is 1.6 ahead of FACT there, here 0.3 behind, though FACT and the oracle "
            "are 1.5 above the paper.",
            "svhn": "More rounds alone bring hardly anything: with the paper's 500 one seed has 89.5, and with the "
            "first edition of the data 60 have as much as 100, 90.0 and 90.1 over the last ten "
            "([temperature](../temperature/table.md), [digit-five-first](../digit-five-first/table.md)). More rounds "
            "with a lower rate do bring something: after 293 of 500 rounds a run that began with 0.01, and was cut off "
            "there, has 90.7, and one that began with 0.04 has 89.0; after 100 they have 89.6 and 87.9 (means over ten "
            "rounds, the same seed; [digit-five-rounds](../digit-five-rounds/table.md)). FACT is as far below the "
            "paper with the rate of this table, and 0.5 below with half of it and 200 rounds. The oracle of the "
            "paper's Table 1, probably another network's, is 0.4 above ours, that of its Table 3 is 3.5 below: images "
            "that are harder hardly explain it. That our copy of SVHN has 28 pixels a side instead of 32 explains "
            "little: with four fewer still a plain network loses 0.4 with labels of SVHN and 0.1 with those of SYN "
            "([svhn-size](../svhn-size/table.md)). Of the sources SYN alone teaches much of SVHN: a model of it, "
            "tested with its own statistics, has 87 there, of the three others at most 24 "
            "([similarity](../similarity/table.md), with the first edition); and it is drawn anew. But that SYN is the "
            "reason is a guess: a plain network learns more of SVHN from our second SYN than from the first "
            "([syn](../syn/table.md)), while GALA has 0.45 less with it and FACT 0.64.",
            "usps": "Digits of USPS fill their frame, those of the sources do not. A plain network that learnt all "
            "four sources takes nines for sevens there: 15 of 100 train images are sevens to it and 3 nines, where 8.6 "
            "and 8.9 are; in a smaller frame it makes fewer mistakes, and fewer such "
            "([usps-frame](../usps-frame/table.md)). Systems differ in how much of that they undo. By the mean of its "
            "probabilities on the train images 10.3 are sevens to GALA's third seed, the best one, and 7.5 nines, and "
            "9.8 and 7.8 after 500 rounds; to FACT 9.5 and 8.2, to SFDA 9.4 and 8.3; to MDAN, CMSS and M³SDA with "
            "linear classifiers more are sevens. Whether the paper's file has the whole frame too is not known; FACT's "
            "code adds no border to it. Its runs end with 97.0 to 97.9 or with 95.3 to 96.2. High are two seeds of "
            "this row, 97.0 and 97.3, the run with the paper's 500 rounds, 97.5, and one with 100 and predictors that "
            "keep the sources' BatchNorm statistics, 97.9; low are the second seed of this row, 95.8, τ = 1, 95.7 "
            "([digit-five-open](../digit-five-open/table.md)), half the rate with 200 rounds and those statistics, "
            "95.3, and a quarter of it with 500, where it was cut off, 96.2 (one seed each; "
            "[digit-five-rounds](../digit-five-rounds/table.md)). To the models of τ = 1 and of half the rate 11.5 and "
            "11.6 of 100 train images are sevens. What decides is not known; both that began with less than 0.04 are "
            "low: after 327 of 500 rounds that with 0.01 has 96.2 and that with 0.04 97.8 (means over ten, the same "
            "seed). FACT's end with 97.7 and 97.8, and 98.1 with half the rate and 200 rounds; 1860 images have a "
            "standard error of 0.4. With the first edition of the data and nine sources GALA, τ = 1, and FACT have "
            "97.6, as much as the oracle of that edition ([source-count](../source-count/table.md), 60 rounds, one "
            "seed).",
            "syn": "It is above, as FACT is: ours is drawn anew.",
        },
    }

    def of_data(self) -> Edition:
        return of_edition(self.edition)

    def claims(self, done: Done) -> Iterable[str]:
        """What the paper says of its table, where every system that adapts was measured on every target."""
        last, targets = last_rounds(done), tuple(self.columns())
        if not all((row, target) in last for row in ADAPTED for target in targets):
            return
        means = {row: fmean(last[row, target] for target in targets) for row in ADAPTED}
        place = 1 + sum(mean > means["GALA"] for mean in means.values())
        top = max((row for row in means if row != "GALA"), key=means.__getitem__)
        yield (
            f"*GALA achieves the highest average accuracy*: it has {means['GALA']:.1f}, {top} {means[top]:.1f}: "
            + ("confirmed." if place == 1 else f"not confirmed, place {place} of {len(means)}.")
        )
        leads = {t: round(last["GALA", t] - max(last[row, t] for row in ADAPTED if row != "GALA"), 1) for t in targets}
        behind = {t: lead for t, lead in leads.items() if lead < 0}
        marginal = len(behind) <= MOST_BEHIND and min(behind.values(), default=0.0) >= -MARGINAL
        told = f"ahead or level on {len(leads) - len(behind)} of {len(leads)}, by {max(leads.values()):.1f} at most"
        yield (
            "*It performs best on all but two targets, where differences are around 0.2*: "
            f"{told}"
            + (f"; behind the best on {signed(behind)}" if behind else "")
            + f": {'confirmed' if marginal else 'not confirmed'}."
        )

    def rows(self) -> Mapping[str, Values]:
        return {row: {"rounds": ROUNDS[row], **values} if row in ROUNDS else values for row, values in SYSTEMS.items()}

    def columns(self) -> Mapping[str, Values]:
        targets = benchmarks.get("digit-five").domains
        return {t: {"benchmark": "digit-five", "target": t, "digit-five": self.edition} for t in targets}
