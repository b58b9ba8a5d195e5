"""The paper's Table 2: Office-Caltech10, with the pretrained network that can be had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.reproduction import published
from galafed.reproduction.accuracy import SYSTEMS, AccuracyStudy, Values
from galafed.studies.base import studies


@studies.register("office-caltech10")
class OfficeStudy(AccuracyStudy):
    """Four targets, three sources each."""

    title: ClassVar[str] = "Office-Caltech10: every system of the paper (its Table 2)"
    about: ClassVar[str] = (
        "The target is named on top; the three other domains are the sources. The network is EfficientNet-Lite0 with "
        "ImageNet weights, 13 MB; the paper's is a ResNet-101 of 170 MB."
    )
    published = published.OFFICE_CALTECH10
    reasons: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("FACT", "GALA"),
        "The network is another one, which cannot be the whole reason: a logistic regression on its frozen features, "
        "which adapts nothing, has as much or more ([probe](../probe/table.md)). What training loses is not known yet. "
        "The oracle is no bound here: it learns the very images it is tested on.",
    )

    def rows(self) -> Mapping[str, Values]:
        return SYSTEMS

    def columns(self) -> Mapping[str, Values]:
        name = "office-caltech10"
        return {target: {"benchmark": name, "target": target} for target in benchmarks.get(name).domains}
