"""FADA: sources disentangle their features, the target confronts them with its own, attention weighs the sources.

Peng et al., Federated Adversarial Domain Adaptation, ICLR 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.algorithms.base import Algorithm, Outcome, algorithms
from galafed.bounds import at_least, positive
from galafed.confrontation import cluster_target, confront, disentangle, share_features
from galafed.disentanglement import attention
from galafed.model import Model, State

if TYPE_CHECKING:
    from galafed.federation import Federation


PUBLISHED = {
    "training.lr": 0.01,
    "training.momentum": 0.0,
    "training.schedule": "constant",
    "fada.adversarial_weight": 1.0,
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much domains and disentangling count, and how many features a source shares."""

    adversarial_weight: float = 0.02
    """On deceiving the discriminators."""
    disentangling_weight: float = 0.1
    """On mutual information and reconstruction."""
    shared_features: int = 128
    """Images of which a source sends features in every round."""

    def __post_init__(self) -> None:
        positive("adversarial_weight", self.adversarial_weight)
        positive("disentangling_weight", self.disentangling_weight)
        at_least("shared_features", self.shared_features, 2)


@algorithms.register("fada")
class Fada(Algorithm[Settings]):
    """Federated adversarial alignment, disentangling, dynamic attention."""

    kind = "federated"
    paper = "Peng et al., Federated Adversarial Domain Adaptation, ICLR 2020"
    sends = (
        "source: the model both ways, its discriminator, features of some images; target: the model both ways, "
        "every source's extractor, discriminators and shared features; no image, no label"
    )
    Settings = Settings
    recommended: ClassVar[Mapping[str, Mapping[str, Any]]] = {"digits": PUBLISHED, "office": PUBLISHED}

    def start(self, fed: Federation, model: Model) -> Model:
        discriminators = [f"discriminator:{source}" for source in fed.sources]
        return Model({**model.parts, **{part: fed.fresh(part) for part in discriminators}})

    def round(self, fed: Federation, model: Model) -> Outcome:
        my, mean, sgd = self.settings, self.training.mean, self.sgd(fed.round)
        h = {part: model.parts[part] for part in ("extractor", "predictor")}
        D = {source: model.parts[f"discriminator:{source}"] for source in fed.sources}

        local = fed.ask(  # (G_n, F_n); what pulls features apart stays at the source
            fed.sources,
            disentangle(adversarial_weight=my.adversarial_weight, disentangling_weight=my.disentangling_weight, **sgd),
            h,
            own={source: {"discriminator": D[source]} for source in fed.sources},
        )
        shared = fed.ask(local.names, share_features(count=my.shared_features), {})["bank"]

        G, F = local["extractor"], local["predictor"]
        before = self._gap(fed, h["extractor"])
        gaps = {n: self._gap(fed, G[n]) for n in shared}
        a = attention(before, gaps)  # α_n
        h = {"extractor": mean({n: G[n] for n in a}, a), "predictor": mean({n: F[n] for n in a}, a)}

        (confronted,) = fed.ask(
            fed.target,
            confront(sources=list(a), count=my.shared_features, adversarial_weight=my.adversarial_weight, **sgd),
            h | {f"bank:{my.shared_features}:{n}": shared[n] for n in a} | {f"discriminator:{n}": D[n] for n in a},
        )
        return Outcome(
            model=Model({**model.parts, **confronted.parts}),
            loss=local.mean("loss"),
            relevance=a,
            notes={"gap": before, "domain_loss": confronted.metrics["loss"] / len(a)},
        )

    def _gap(self, fed: Federation, extractor: State) -> float:
        """How loosely the target's features cluster under an extractor, into as many clusters as there are classes."""
        measured = fed.ask(fed.target, cluster_target(clusters=fed.network.classes), {"extractor": extractor})
        return float(measured["gap"][fed.target]["value"])
