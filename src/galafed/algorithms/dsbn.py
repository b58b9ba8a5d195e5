"""DSBN: every domain has BatchNorm layers of its own; first semantic transfer (MSTN), then self-training on the target.

Chang et al., Domain-Specific Batch Normalization for Unsupervised Domain Adaptation, CVPR 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.adversarial import ramp
from galafed.algorithms.base import Algorithm, Outcome, algorithms
from galafed.bounds import positive
from galafed.central import on_target
from galafed.domain_norms import normed, norms_of, pseudo_label, seen_by, self_train, transfer_semantics
from galafed.errors import ConfigError
from galafed.model import Model, State

if TYPE_CHECKING:
    from galafed.federation import Federation
    from galafed.networks.base import Network


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The weights of the first stage, and how long it lasts."""

    first_stage: float = 0.5
    """Share of the rounds spent on the first stage; the rest is self-training."""
    adversarial_weight: float = 0.1
    """On the domain loss."""
    semantic_weight: float = 1.0
    """On the distance of class centroids."""
    centroid_rate: float = 0.3
    """θ: how fast centroids move."""

    def __post_init__(self) -> None:
        for key in ("first_stage", "adversarial_weight", "semantic_weight", "centroid_rate"):
            positive(key, getattr(self, key))
        for key in ("first_stage", "centroid_rate"):
            if getattr(self, key) > 1:
                raise ConfigError(f"{key} = {getattr(self, key)}: must be a share, at most 1")


@algorithms.register("dsbn")
class Dsbn(Algorithm[Settings]):
    """BatchNorm layers for every domain, semantic transfer, self-training."""

    kind = "central"
    paper = "Chang et al., Domain-Specific Batch Normalization for Unsupervised Domain Adaptation, CVPR 2019"
    sends = "all images of all domains, once, to one place; the target receives the model"
    Settings = Settings
    # Layers with fixed statistics, the benchmark's, would leave a domain nothing of its own but scales and shifts.
    recommended: ClassVar[Mapping[str, Mapping[str, Any]]] = {"office": {"network": "efficientnet_lite0"}}

    def check(self, network: Network) -> None:
        if not normed(network):
            raise ConfigError(f"dsbn gives every domain BatchNorm layers of its own, but {network.name} has none")

    def start(self, fed: Federation, model: Model) -> Model:
        domains = (*fed.domains, fed.target)
        fresh = [f"centroids:{domain}" for domain in domains] + [f"discriminator:logits:{s}" for s in fed.domains]
        parts: dict[str, State] = {**model.parts, **{part: fed.fresh(part) for part in fresh}}
        for part in norms_of(domains, normed(fed.network)):  # every domain starts from the network's own layers
            whole = model.parts[part.split(":")[1]]
            parts[part] = {name: whole[name].clone() for name in fed.network.schema(part)}
        return Model(parts)

    def round(self, fed: Federation, model: Model) -> Outcome:
        my, sgd = self.settings, self.sgd(fed.round)
        first = max(1, round(my.first_stage * self.rounds))
        where = {"target": fed.target, "modules": normed(fed.network)}
        parts = dict(model.parts)

        if fed.round < first:
            strength = ramp((fed.round + 1) / first)
            (reply,) = fed.ask(
                fed.sources,
                transfer_semantics(
                    sources=fed.domains,
                    adversarial_weight=strength * my.adversarial_weight,
                    semantic_weight=strength * my.semantic_weight,
                    rate=my.centroid_rate,
                    **where,
                    **sgd,
                ),
                model,
            )
        else:
            if "extractor:teacher" not in parts:
                parts |= {f"{part}:teacher": state for part, state in seen_by(fed.target, parts).items()}
            trust = ramp((fed.round - first) / (self.rounds - first))  # in the student itself
            fed.ask(fed.sources, pseudo_label(trust=trust, **where), parts)
            (reply,) = fed.ask(fed.sources, self_train(sources=fed.domains, **where, **sgd), parts)

        parts |= reply.parts
        # Statistics gathered while weights moved lag behind them, and the target's decide on pseudo-labels and tests.
        tested = on_target(fed, Model(seen_by(fed.target, parts)), batch_size=sgd["batch_size"])
        for part in norms_of([fed.target], normed(fed.network)):
            parts[part] = {name: tested.parts[part.split(":")[1]][name] for name in parts[part]}
        return Outcome(
            model=Model(parts),
            tested=tested,
            loss=reply.metrics["loss"],
            notes={"stage": 1 if fed.round < first else 2},
        )
