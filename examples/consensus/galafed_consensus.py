"""Consensus: federated averaging, then BatchNorm statistics of the target. A first example of a method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from galafed.algorithms.base import Algorithm, Outcome, algorithms
from galafed.bounds import positive
from galafed.model import Model
from galafed.relevance import relevance, similarity
from galafed.tasks import centroids, train

if TYPE_CHECKING:
    from galafed.federation import Federation


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What can be set in the table [consensus] of a configuration file."""

    tau: float = 1.0
    """Sharpness of the relevance softmax."""

    def __post_init__(self) -> None:
        positive("tau", self.tau)


@algorithms.register("consensus")
class Consensus(Algorithm[Settings]):
    """Average the sources' models by their relevance to the target."""

    kind = "federated"
    paper = "-"
    sends = "source: the model both ways, centroids; target: the model, centroids"
    Settings = Settings

    def round(self, fed: Federation, model: Model) -> Outcome:
        r = fed.ask(fed.everyone, centroids(), model)["centroids"]
        w = relevance(similarity(r, target=fed.target), tau=self.settings.tau)
        local = fed.ask(w, train(send=("extractor", "predictor"), **self.sgd(fed.round)), model)
        parts = {part: self.training.mean(local[part], w) for part in ("extractor", "predictor")}
        return Outcome(model=Model(parts), loss=local.mean("loss"), relevance=w)
