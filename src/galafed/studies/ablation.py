"""What IGD and the weighting bring: the paper's five configurations, and controls for the size of the step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from galafed.reproduction.accuracy import AccuracyStudy, Values
from galafed.studies.base import studies

SMALLER = math.sqrt(17 / 2)
"""IGD of two groups of M heads is about √M times smaller than IDD of two heads: a smaller step, apart from all else."""


@studies.register("ablation")
class AblationStudy(AccuracyStudy):
    """IGD and weighting on and off, on two hard targets of Digit-18."""

    title: ClassVar[str] = "GALA without its parts (its ablation), Digit-18"
    about: ClassVar[str] = (
        "The paper shows its five configurations as curves only. Three controls are ours: FACT with the smaller step "
        "that IGD amounts to, FACT with all sources trained each round, and GALA with the larger step of FACT."
    )

    reference: ClassVar[str] = "IGD, MDMGB+ (GALA)"

    def rows(self) -> Mapping[str, Values]:
        return {
            "IGD, no weighting": {"gala": {"relevance": "uniform"}},
            "IGD, MDMGB": {"gala": {"relevance": "mdmgb"}},
            "IGD, MDMGB+ (GALA)": {"gala": {"relevance": "mdmgb+"}},
            "no IGD, MDMGB+": {"gala": {"igd": False}},
            "no IGD, no weighting": {"gala": {"igd": False, "relevance": "uniform"}},
            "control: FACT, smaller step": {"algorithm": "fact", "fact": {"idd_scale": 1 / SMALLER}},
            "control: FACT, all sources train": {"algorithm": "fact", "fact": {"train_all": True}},
            "control: GALA, larger step": {"gala": {"igd_scale": SMALLER}},
        }

    def columns(self) -> Mapping[str, Values]:
        return {t: {"benchmark": "digit-18", "target": t, "rounds": 60} for t in ("mnistm", "svhnxs")}
