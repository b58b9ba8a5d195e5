"""Source-only: federated averaging over the sources, no adaptation; the lower bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from galafed.algorithms.base import Algorithm, Outcome, algorithms
from galafed.model import Model
from galafed.tasks import align, train

if TYPE_CHECKING:
    from galafed.federation import Federation


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where the data is, and whose BatchNorm statistics the model is tested with."""

    pooled: bool = False
    """Put all source data in one place and train centrally; otherwise average the sources' models every round."""
    statistics: Literal["source", "target"] = "source"
    """Test with the sources' BatchNorm statistics, or with those of the unlabelled target images (AdaBN)."""


@algorithms.register("source_only")
class SourceOnly(Algorithm[Settings]):
    """Federated averaging over the sources, tested on the target as it is."""

    kind = "bound"
    paper = "-"
    sends = "source: the model, both ways; target: the model, once"
    Settings = Settings

    @property
    def pools_sources(self) -> bool:
        return self.settings.pooled

    def round(self, fed: Federation, model: Model) -> Outcome:
        sgd, mean = self.sgd(fed.round), self.training.mean
        local = fed.ask(fed.sources, train(send=("extractor", "predictor"), **self.supervised(fed.round)), model)
        w = dict.fromkeys(local.names, 1 / len(local.names))
        G, F = mean(local["extractor"], w), mean(local["predictor"], w)

        tested = None
        if self.settings.statistics == "target":
            refreshed = fed.ask(
                fed.target,
                align(groups=[{"1": 1.0}], scale=1.0, dropout=False, **sgd),
                {"extractor": G, "predictor:1": F},
            )
            statistics = refreshed["statistics:1"][fed.target]
            tested = Model({"extractor": refreshed["extractor"][fed.target], "predictor": F | statistics})
        return Outcome(
            model=Model({"extractor": G, "predictor": F}),
            tested=tested,
            loss=local.mean("loss"),
            relevance=w,
        )
