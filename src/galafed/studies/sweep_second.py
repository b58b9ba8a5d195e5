"""A second sweep of the digits, with the second edition: the first chose the highest learning rate that it tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from galafed.reproduction.accuracy import Done, Values
from galafed.reproduction.collapse import collapses
from galafed.reproduction.editions import Edition, of_edition
from galafed.studies.base import studies
from galafed.studies.sweep import ROUNDS, Sweep, choices

CENTRE = "lr 0.04, IGD 1"
TWICE = "softmax twice, lr 0.16"
TARGETS = ("mnistm", "svhn", "usps")


def setting(rate: float, scale: float = 1.0, network: str = "digit_cnn") -> Values:
    """A learning rate, a strength of IGD, a network."""
    return {"training": {"lr": rate}, "gala": {"igd_scale": scale}, "network": network}


SETTINGS: Mapping[str, Values] = {
    CENTRE: setting(0.04),
    "lr 0.08": setting(0.08),
    "lr 0.16": setting(0.16),
    "IGD 2": setting(0.04, 2.0),
    "lr 0.08, IGD 2": setting(0.08, 2.0),
    "softmax twice": setting(0.04, network="digit_cnn_softmax"),
    TWICE: setting(0.16, network="digit_cnn_softmax"),
}

ONCE = [row for row, values in SETTINGS.items() if values["network"] == "digit_cnn"]
"""Rows with one softmax: how sure predictions are depends on the loss that a network was trained with."""


@studies.register("sweep-second")
class SecondSweep(Sweep):
    """Digit-Five, the two hard targets and the one with fewest images."""

    title: ClassVar[str] = "A second sweep, with the second edition: higher learning rates and a stronger IGD"
    about: ClassVar[str] = (
        f"The centre, {CENTRE}, is what the tables have. The study `sweep` chose its rate, the highest it tried, with "
        "the first edition of the data; whether more of it, or of IGD, is better was left open. FACT's public code, "
        "which the paper's probably grew from, trains on the softmax of a softmax, which makes all gradients smaller."
    )

    reference: ClassVar[str] = CENTRE

    def of_data(self) -> Edition:
        return of_edition({})

    def claims(self, done: Done) -> Iterable[str]:
        """What each judge would choose, among rows of one loss and among all, and what that is worth."""
        for words, rows in (("rows of one softmax", ONCE), ("all rows", list(SETTINGS))):
            if told := choices(done, rows, TARGETS, CENTRE):
                yield f"Ours: of {words}, {told}"
        yield from collapses(done)

    def rows(self) -> Mapping[str, Values]:
        return SETTINGS

    def columns(self) -> Mapping[str, Values]:
        return {target: {"benchmark": "digit-five", "rounds": ROUNDS, "target": target} for target in TARGETS}
