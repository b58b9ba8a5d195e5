"""Digit-Five with the network of the papers that rows of federated systems come from: does the cut explain the gap?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.reproduction.accuracy import BY_FEATURES, Values
from galafed.reproduction.editions import FIRST
from galafed.studies.base import studies
from galafed.studies.digit_five import DigitFiveStudy

ROWS = ("oracle", "source-only", "FADA", "SHOT", "SFDA", "KD3A")


@studies.register("digit-five-cut")
class DigitFiveCutStudy(DigitFiveStudy):
    """Nearly all weights in the extractor, where those of the study `digit-five-first` are in the predictor."""

    title: ClassVar[str] = "Digit-Five: federated systems with a linear predictor (their rows of its Table 1)"
    about: ClassVar[str] = (
        "The network is `m3sda_cnn`, whose predictor is one linear layer; these rows of the paper's table come from "
        "KD3A's authors, who used it. Its convolutions differ too, so what the cut alone does is not seen here. All "
        "else is as in the study `digit-five-first`."
    )
    edition: ClassVar[Values] = FIRST
    reasons: ClassVar[Mapping[str, str]] = {
        "KD3A": "SYN is regenerated. On USPS it is below what it has with the network of "
        "[digit-five-first](../digit-five-first/table.md), and gains nothing in the last quarter of the rounds: not "
        "explained. KD3A's authors have 100 rounds.",
    }

    def rows(self) -> Mapping[str, Values]:
        every = super().rows()
        return {row: {**every[row], **BY_FEATURES.get(row, {}), "network": "m3sda_cnn"} for row in ROWS}
