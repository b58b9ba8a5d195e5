"""CMSS: a curriculum manager weighs every source image by how well it can be aligned with the target.

Yang et al., Curriculum Manager for Source Selection in Multi-Source Domain Adaptation, ECCV 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from galafed.adversarial import DISCERNING_RATE, curriculum, domain_loss, ramp
from galafed.algorithms.base import Algorithm, Outcome, algorithms
from galafed.bounds import positive
from galafed.central import Statistics, at, classification, on_target, together
from galafed.lazy import torch
from galafed.model import Model
from galafed.work import Batch, Descent, Fit, Outputs, Step, task

if TYPE_CHECKING:
    from galafed.federation import Federation


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much the domains count."""

    adversarial_weight: float = 0.1
    """λ on the weighted domain loss; it rises from 0 to this over the run."""
    statistics: Statistics = "target"

    def __post_init__(self) -> None:
        positive("adversarial_weight", self.adversarial_weight)


@task
def weigh_sources(*, sources: Sequence[str], target: str, adversarial_weight: float, **sgd: Unpack[Descent]) -> Fit:
    """Every batch: (G, F) learn labels and deceive D on weighted sources; D learns; the manager raises its error."""
    domains = (*sources, target)
    judged = at(domains, "extractor", "discriminator")
    scored = at(sources, "extractor", "curriculum")

    def weights(outputs: Outputs) -> torch.Tensor:
        """w: one for every source image of the batch, whichever source it comes from; mean 1."""
        return curriculum(torch.cat([outputs[f"curriculum {source}"] for source in sources]))

    def game(outputs: Outputs, w: torch.Tensor) -> torch.Tensor:
        """L_wdom = -E_s[w log D] - E_t[log(1 - D)], all sources against the target."""
        logits = torch.cat([outputs[f"discriminator {source}"] for source in sources])
        return domain_loss(logits, outputs[f"discriminator {target}"], w)

    def deceive(outputs: Outputs, batch: Batch) -> torch.Tensor:
        loss = classification(outputs, batch, sources).mean()
        return loss - adversarial_weight * game(outputs, weights(outputs).detach())

    def discern(outputs: Outputs, batch: Batch) -> torch.Tensor:
        return game(outputs, weights(outputs).detach())

    def manage(outputs: Outputs, batch: Batch) -> torch.Tensor:
        return -game(outputs, weights(outputs))

    labelled = at(sources, "extractor", "predictor")
    return together(
        Step(outputs=labelled | judged | scored, loss=deceive, update=("extractor", "predictor")),
        Step(outputs=judged | scored, loss=discern, update=("discriminator",)),
        Step(outputs=judged | scored, loss=manage, update=("curriculum",)),
        rates=dict.fromkeys(("discriminator", "curriculum"), DISCERNING_RATE),
        **sgd,
    )


@algorithms.register("cmss")
class Cmss(Algorithm[Settings]):
    """Source images weighted by an adversary of the discriminator."""

    kind = "central"
    paper = "Yang et al., Curriculum Manager for Source Selection in Multi-Source Domain Adaptation, ECCV 2020"
    sends = "all images of all domains, once, to one place; the target receives the model"
    Settings = Settings

    def start(self, fed: Federation, model: Model) -> Model:
        return Model({**model.parts, **{part: fed.fresh(part) for part in ("discriminator", "curriculum")}})

    def round(self, fed: Federation, model: Model) -> Outcome:
        my, sgd = self.settings, self.sgd(fed.round)
        weight = my.adversarial_weight * ramp((fed.round + 1) / self.rounds)
        task = weigh_sources(sources=fed.domains, target=fed.target, adversarial_weight=weight, **sgd)
        (reply,) = fed.ask(fed.sources, task, model)
        model = Model(reply.parts)
        return Outcome(
            model=model,
            tested=on_target(fed, model, batch_size=sgd["batch_size"]) if my.statistics == "target" else None,
            loss=reply.metrics["loss"],
            notes={"domain_loss": reply.metrics["loss_2"], "adversarial_weight": weight},
        )
