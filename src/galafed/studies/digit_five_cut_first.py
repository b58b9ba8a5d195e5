"""Digit-Five with a linear predictor and the data of the first edition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.reproduction.accuracy import BY_FEATURES, Values
from galafed.reproduction.editions import FIRST
from galafed.studies.base import studies
from galafed.studies.digit_five_cut import DigitFiveCutStudy

ROWS = ("SHOT", "KD3A")


@studies.register("digit-five-cut-first")
class DigitFiveCutFirstStudy(DigitFiveCutStudy):
    """What was measured of `digit-five-cut` before its data were drawn anew."""

    title: ClassVar[str] = "Digit-Five: with a linear predictor and the data of the first edition"
    about: ClassVar[str] = (
        "The network is `m3sda_cnn`, whose predictor is one linear layer; KD3A's authors used it, and these rows of "
        "the paper's table probably come from their paper. Its convolutions differ too, so what the cut alone does is "
        "not seen here. All else is as in the study `digit-five-first`."
    )
    edition: ClassVar[Values] = FIRST
    reasons: ClassVar[Mapping[str, str]] = {
        "KD3A": "SYN is regenerated. On USPS it is below what it has with the network of "
        "[digit-five-first](../digit-five-first/table.md), and gains nothing in the last quarter of the rounds: not "
        "explained. KD3A's authors have 100 rounds.",
    }

    def rows(self) -> Mapping[str, Values]:
        every = super().rows()
        return {row: {**every[row], **BY_FEATURES.get(row, {})} for row in ROWS}
