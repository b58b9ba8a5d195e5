"""Oracle: the same network trained on the target's own labels; the upper bound, and the only one that sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from galafed.algorithms.base import Algorithm, Outcome, algorithms
from galafed.model import Model
from galafed.tasks import train

if TYPE_CHECKING:
    from galafed.federation import Federation


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Nothing to set."""


@algorithms.register("oracle")
class Oracle(Algorithm[Settings]):
    """Supervised training on the labelled target."""

    kind = "bound"
    paper = "-"
    sends = "target: the model, both ways"
    Settings = Settings
    sees_target_labels = True

    def round(self, fed: Federation, model: Model) -> Outcome:
        trained = fed.ask(fed.target, train(send=("extractor", "predictor"), **self.supervised(fed.round)), model)
        G, F = trained["extractor"][fed.target], trained["predictor"][fed.target]
        return Outcome(model=Model({"extractor": G, "predictor": F}), loss=trained.mean("loss"))
