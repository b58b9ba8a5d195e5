"""Which learning rate suits Office-Caltech10, with the momentum kept and without: short runs of GALA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.reproduction.accuracy import Values
from galafed.studies.base import studies
from galafed.studies.sweep import Sweep

ROUNDS = 40
TARGETS = ("webcam", "amazon", "caltech")
FIXED = "lr 0.02, momentum kept, of the extractor 0.002, statistics fixed"
"""What `office-caltech10` has since."""


@studies.register("sweep-office")
class OfficeSweep(Sweep):
    """Office-Caltech10: a small target, a large one, and the one on which training loses against frozen features."""

    title: ClassVar[str] = "A sweep for Office-Caltech10: learning rate, momentum, rate of the extractor"
    about: ClassVar[str] = (
        "The paper gives no learning rate; FACT's code has 0.005 and keeps each client's momentum over the whole run. "
        "A phase has two to nine batches here, fewer than the ten or so that a momentum of 0.9 needs to build up: "
        "started anew in every phase, it moves a network two to seven times less. The extractor is pretrained: it may "
        "have less to learn than the predictor, which starts from nothing. BatchNorm takes the statistics of "
        "batches in all rows but the last, which came later."
    )

    reference: ClassVar[str] = FIXED

    def rows(self) -> Mapping[str, Values]:
        tried = ((0.005, False), (0.02, False), (0.05, False), (0.005, True), (0.02, True))
        variants = {
            f"lr {rate:g}, momentum {'kept' if kept else 'anew'}": {"lr": rate, "persistent_momentum": kept}
            for rate, kept in tried
        }
        for share in (0.1, 0.01):
            variants[f"lr 0.02, momentum kept, of the extractor {0.02 * share:g}"] = {
                "lr": 0.02,
                "persistent_momentum": True,
                "extractor_rate": share,
            }
        usual = {"algorithm": "gala", "network": "efficientnet_lite0"}
        fixed = {"algorithm": "gala", "network": "efficientnet_lite0_fixed"}
        return {row: {**usual, "training": training} for row, training in variants.items()} | {FIXED: fixed}

    def columns(self) -> Mapping[str, Values]:
        return {t: {"benchmark": "office-caltech10", "target": t, "rounds": ROUNDS} for t in TARGETS}
