"""The paper's Table 2: Office-Caltech10, with the pretrained network that can be had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.report.verdict import Why
from galafed.reproduction import published
from galafed.reproduction.accuracy import (
    ADAPTED,
    BY_FEATURES,
    SYSTEMS,
    AccuracyStudy,
    Done,
    Means,
    Values,
    last_rounds,
)
from galafed.studies.base import studies

FROZEN = "of Caltech a regression on its frozen features knows 92.4 ([probe](../probe/table.md))"
ON_CALTECH = (
    "Source-only has 93.0 on Caltech, and 93.7 in SHOT's paper, with the larger network; 1123 images have a standard "
    "error of 0.8. GALA and FACT gain 0.4 points here; in the paper they are 1.3 and 1.8 above SHOT's source-only. "
    "SHOT gains 0.6 here and 2.5 in its own paper. Adaptation trains the extractor, which has a tenth of the rate "
    "here: with statistics of batches GALA has more the higher that rate is "
    "([sweep-office](../sweep-office/table.md)), with fixed ones it has not "
    "([office-lite2](../office-lite2/table.md)). After ten rounds accuracy changes by -0.2 to +0.7 points, so 40 "
    "rounds instead of 500 hardly explain it. The network may be a part of it: with EfficientNet-Lite2 GALA has 94.0 "
    "after 20 rounds, one seed, and is within a point of the paper on all four targets; with Lite0 its seeds have "
    "93.0 to 93.5 after as many. The difference is about a standard error."
)
ON_WEBCAM = (
    "The network is another one. On Webcam source-only, too, is below the paper, by 2.1, and 295 images have a "
    "standard error of 0.8. 20 of 40 rounds."
)
DISTRIBUTED = ("FADA", "SHOT", "SFDA", "KD3A", "FACT", "GALA")
ROUNDS = {"MDAN": 20, "M³SDA": 10, "CMSS": 20, "DSBN": 20, "FADA": 20, "KD3A": 40}
"""Where it is not the benchmark's 40: there was no time for 40 of the others, nor for KD3A's own 100."""
CLEAR = 1.0
"""Points on a target that are called a lead: the standard error of its images is 0.6 to 0.8 on all but DSLR, where few
are wrong, and one of its images is 0.6."""
CLOSE = 0.2
"""Points of a mean over targets: GALA's means of three seeds differ by more."""


@studies.register("office-caltech10")
class OfficeStudy(AccuracyStudy):
    """Four targets, three sources each."""

    title: ClassVar[str] = "Office-Caltech10: every system of the paper (its Table 2)"
    about: ClassVar[str] = (
        "The target is named on top; the three other domains are the sources. The network is EfficientNet-Lite0 with "
        "ImageNet weights, 13 MB; the paper's is a ResNet-101 of 170 MB. Its extractor normalises with the statistics "
        "of ImageNet, in training too. With those of batches all but the oracle have less on average "
        "([office-batch](../office-batch/table.md)), and such runs were seen before. Without a label of the target, "
        "its sources choose the same, each tested by the others ([probe](../probe/table.md)), though the information "
        "of GALA's predictions chooses batches, by little ([sweep-office](../sweep-office/judged.md)). DSBN needs "
        "statistics of its domains, and has the other network. Pseudo-labels of SHOT and SFDA are by class means of "
        "the pretrained features. All images of a target are both its train and its test "
        "images, as in FACT's code and, by its deviations, in the paper, so the oracle learns the very images it is "
        "tested on. The columns of the paper's MDAN row seem to be reversed; they are turned round here."
    )
    published = published.OFFICE_CALTECH10
    bounded: ClassVar[bool] = False
    lower_bound: ClassVar[Mapping[str, str]] = dict.fromkeys(ADAPTED, "source-only")
    reasons: ClassVar[Mapping[str, Why]] = {
        "oracle": "It learns the very images it is tested on, so what lacks to 100 tells of training alone.",
        "source-only": "The paper's row is low: SHOT's authors have published 95.4, 93.7, 98.9 and 98.3, and ours is "
        "within 1.5 points of each.",
        "MDAN": ON_WEBCAM,
        "M³SDA": "The network is another one. It is below source-only on all four, by 0.6 to 3.2 points; on Amazon "
        "and Caltech it gains 0.2 and 0.4 after its first round, on DSLR 2.5, and on Webcam it loses 0.7. Its "
        "classifiers differ by 0.01 to 0.07, of at most 2, in the end: they do not come apart as on digits. Why it "
        "stays below source-only is not known. 10 of 40 rounds.",
        "CMSS": ON_WEBCAM,
        "DSBN": "It is the only one whose BatchNorm takes statistics of batches, of each domain. With these "
        "source-only has 86.9 on Caltech and 98.7 on DSLR ([office-batch](../office-batch/table.md)), so what DSBN "
        "gains and loses is +2.1 and -1.9 points. Its second half, with pseudo-labels, changes less than half a point. "
        "Amazon and Webcam were not looked into. 20 of 40 rounds.",
        "FADA": "The paper's row is FADA's own, with another network, and ten points below its source-only on DSLR "
        "and Webcam. Ours has 45 to 60 after the first round and ends below source-only too, by up to a point; why it "
        "ends that far above the paper is not known. 20 of 40 rounds.",
        "SHOT": "The network is another one: " + FROZEN + ".",
        "KD3A": "The network is another one, and the paper's figures come from KD3A's authors, who test on a fifth of "
        "the images and have 100 rounds.",
        "FACT": {"caltech": ON_CALTECH},
        "GALA": {
            "amazon": "Its seeds have 95.9, 96.3 and 96.0; 958 images have a standard error of 0.6.",
            "caltech": ON_CALTECH,
            "dslr": "One image of 157 is 0.6 points: one seed has none wrong, two have one.",
            "webcam": "One image of 295 is 0.3 points: its seeds have 1, 3 and 5 wrong.",
        },
    }

    def claims(self, done: Done) -> Iterable[str]:
        last, targets = last_rounds(done), tuple(self.columns())
        whole = [row for row in DISTRIBUTED if all((row, t) in last for t in targets)]
        if "GALA" not in whole or len(whole) == 1:
            return
        for words, places, row, rivals in (
            ("KD3A is slightly better on Amazon and Caltech", ("amazon", "caltech"), "KD3A", ("GALA",)),
            ("GALA has the highest accuracy on DSLR and Webcam", ("dslr", "webcam"), "GALA", whole),
        ):
            if row in whole:
                told = [f"{t} {_leads(last, row, rivals, t)} ({_by_row(last, whole, t)})" for t in places]
                yield f"*{words}*: {'; '.join(told)}."
        means = {row: fmean(last[row, t] for t in targets) for row in whole}
        if "KD3A" in whole:
            place = 1 + sum(mean > means["GALA"] for mean in means.values())
            near = [row for row in whole if row != "GALA" and abs(means[row] - means["GALA"]) < CLOSE]
            beside = f"; too close to call, within {CLOSE:g} points: {', '.join(near)}" if near else ""
            each = ", ".join(f"{row} {mean:.1f}" for row, mean in means.items())
            words = f"place {place} of {len(means)} measured ({each}){beside}"
            yield f"*GALA ranks second among distributed methods*: {words}."
        if all(("source-only", t) in last for t in targets):
            gained = means["GALA"] - fmean(last["source-only", t] for t in targets)
            paper = fmean(self.published["GALA"][t] - self.published["source-only"][t] for t in targets)
            yield f"Ours: GALA gains {gained:+.1f} points on average over source-only, {paper:+.1f} in the paper."

    def rows(self) -> Mapping[str, Values]:
        # No statistics of the target could stand in for those of ImageNet.
        rows = {row: values for row, values in SYSTEMS.items() if row != "source-only, target statistics"}
        rows |= {row: {**rows[row], "rounds": rounds} for row, rounds in ROUNDS.items()}
        return {**rows, **BY_FEATURES}

    def columns(self) -> Mapping[str, Values]:
        name = "office-caltech10"
        return {target: {"benchmark": name, "target": target} for target in benchmarks.get(name).domains}


def _leads(last: Means, row: str, rivals: Sequence[str], target: str) -> str:
    """Whether a row has more than each of its rivals on a target, by more than a point."""
    lead = last[row, target] - max(last[name, target] for name in {*rivals} - {row})
    return "yes" if lead > CLEAR else "no" if lead < -CLEAR else "too close to call"


def _by_row(last: Means, rows: Sequence[str], target: str) -> str:
    return ", ".join(f"{row} {last[row, target]:.1f}" for row in rows)
