"""SFDA: source models are weighed once, by the similarity of class centroids, and taught to one model, then adapted.

What the GALA paper says of it, the system in which MDMGB was introduced, is all there is to go by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from galafed.algorithms import shot
from galafed.algorithms.base import Algorithm, Outcome, algorithms
from galafed.bounds import at_least
from galafed.distillation import distill, weighted_vote
from galafed.hypothesis_transfer import centroids_under
from galafed.model import Model
from galafed.relevance import relevance, similarity_of_pairs
from galafed.tasks import centroids

if TYPE_CHECKING:
    from galafed.federation import Federation


@dataclass(frozen=True, kw_only=True)
class Settings(shot.Settings):
    """SHOT's switches, and how the source models become one."""

    merge: Literal["outputs", "parameters"] = "outputs"
    """Teach a model what the weighted models say, or average their parameters, far apart as they are by then."""
    merge_epochs: int = 10
    """Passes over the target's images for the teaching."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("merge_epochs", self.merge_epochs, 1)


@algorithms.register("sfda")
class Sfda(Algorithm[Settings]):
    """Multi-domain model generalisation balance, then pseudo-labels and information maximisation on one model."""

    kind = "federated"
    paper = "SFDA with the MDMGB weighting, as cited in GALA, ICML 2026"
    sends = "source: the first model, its own once, centroids; target: all models and centroids once, then G a round"
    Settings = Settings
    recommended: ClassVar[Mapping[str, Mapping[str, Any]]] = shot.recommended_for("sfda")

    def round(self, fed: Federation, model: Model) -> Outcome:
        if fed.round == 0:
            return self._merge(fed, model)
        sgd = self.training.sgd(fed.round - 1, max(self.rounds - 1, 1))
        model, moved = shot.adapt(fed, model, [""], self.settings, sgd)
        return Outcome(model=model, loss=moved.mean("loss"))

    def _merge(self, fed: Federation, model: Model) -> Outcome:
        """h from all h_n by w_n = S_n / Σ S, with S_n from r_n^c and r_T^c, both under h_n."""
        my, mean = self.settings, self.training.mean
        local = shot.train_alone(fed, model, self.training, my, hold="own")
        G, F = local["extractor"], local["predictor"]
        h = {n: Model({"extractor": G[n], "predictor": F[n]}, tag="own") for n in local.names}
        every = Model({f"{part}:{n}": h[n].parts[part] for n in h for part in h[n].parts}, tag="every")

        r = fed.ask(local.names, centroids(), {}, own=h)["centroids"]  # r_n^c
        at_target = fed.ask(fed.target, centroids_under(models=list(local.names)), every)
        S = similarity_of_pairs({n: (at_target[f"centroids:{n}"][fed.target], r[n]) for n in r})
        w = relevance(S, rule="mdmgb")

        if my.merge == "parameters":
            parts = {"extractor": mean({n: G[n] for n in w}, w), "predictor": mean({n: F[n] for n in w}, w)}
        else:
            sgd = self.sgd(0) | {"epochs": my.merge_epochs}
            fed.ask(fed.target, weighted_vote(weights=w, batch_size=self.training.batch_size), every)
            taught = fed.ask(fed.target, distill(mixup=0.0, hold="t1", **sgd), model)
            parts = {part: taught[part][fed.target] for part in model.parts}
        return Outcome(model=Model(parts, tag="t1"), loss=local.mean("loss"), relevance=w, notes={"similarity": S})
