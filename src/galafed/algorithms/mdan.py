"""MDAN: one domain discriminator for each source, and a bound that leans towards the source that is hardest.

Zhao et al., Adversarial Multiple Source Domain Adaptation, NeurIPS 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Unpack

from galafed.adversarial import DISCERNING_RATE, domain_loss, hardest_source, ramp, reversed_gradient, smooth_sources
from galafed.algorithms.base import Algorithm, Outcome, algorithms
from galafed.bounds import positive
from galafed.central import Statistics, at, classification, on_target, together
from galafed.lazy import torch
from galafed.model import Model
from galafed.work import Batch, Descent, Fit, Outputs, Path, Step, task

if TYPE_CHECKING:
    from galafed.federation import Federation


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Which bound is minimised, and how much the domains count in it."""

    bound: Literal["soft", "hard"] = "soft"
    """The log-sum-exp over sources, or the worst source."""
    mu: float = 0.03
    """Weight μ of the domain losses; it rises from 0 to this over the run."""
    gamma: float = 10.0
    """Sharpness γ of the soft bound."""
    statistics: Statistics = "target"

    def __post_init__(self) -> None:
        positive("mu", self.mu)
        positive("gamma", self.gamma)


@task
def minimise_bound(
    *, sources: Sequence[str], target: str, mu: float, gamma: float | None, **sgd: Unpack[Descent]
) -> Fit:
    """Every batch: (G, F) minimise the bound (hard without γ) with reversed domain losses; then each D_i learns."""
    discriminators = {source: f"discriminator:{source}" for source in sources}
    judged: dict[str, Path] = {}
    for source, discriminator in discriminators.items():
        judged |= {f"{source} as source": (f"@{source}", "extractor", discriminator)}
        judged |= {f"{source} as target": (f"@{target}", "extractor", discriminator)}

    def domains(outputs: Outputs) -> torch.Tensor:
        """d_i [N]: how badly D_i tells source i from the target."""
        return torch.stack([domain_loss(outputs[f"{s} as source"], outputs[f"{s} as target"]) for s in sources])

    def bound(outputs: Outputs, batch: Batch) -> torch.Tensor:
        losses, d = classification(outputs, batch, sources), reversed_gradient(domains(outputs))
        return hardest_source(losses, d, mu=mu) if gamma is None else smooth_sources(losses, d, mu=mu, gamma=gamma)

    return together(
        Step(outputs=at(sources, "extractor", "predictor") | judged, loss=bound, update=("extractor", "predictor")),
        Step(outputs=judged, loss=lambda outputs, batch: domains(outputs).sum(), update=tuple(discriminators.values())),
        rates=dict.fromkeys(discriminators.values(), DISCERNING_RATE),
        **sgd,
    )


@algorithms.register("mdan")
class Mdan(Algorithm[Settings]):
    """A discriminator for each source, the hardest source first."""

    kind = "central"
    paper = "Zhao et al., Adversarial Multiple Source Domain Adaptation, NeurIPS 2018"
    sends = "all images of all domains, once, to one place; the target receives the model"
    Settings = Settings

    def start(self, fed: Federation, model: Model) -> Model:
        discriminators = [f"discriminator:{source}" for source in fed.domains]
        return Model({**model.parts, **{part: fed.fresh(part) for part in discriminators}})

    def round(self, fed: Federation, model: Model) -> Outcome:
        my, sgd = self.settings, self.sgd(fed.round)
        mu = my.mu * ramp((fed.round + 1) / self.rounds)
        bound = minimise_bound(
            sources=fed.domains, target=fed.target, mu=mu, gamma=my.gamma if my.bound == "soft" else None, **sgd
        )
        (reply,) = fed.ask(fed.sources, bound, model)
        model = Model(reply.parts)
        return Outcome(
            model=model,
            tested=on_target(fed, model, batch_size=sgd["batch_size"]) if my.statistics == "target" else None,
            loss=reply.metrics["loss"],
            notes={"domain_loss": reply.metrics["loss_2"] / len(fed.domains), "mu": mu},
        )
