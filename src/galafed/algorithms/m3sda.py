"""M³SDA: the moments of all domains are drawn together, and a pair of classifiers is played off against G (β).

Peng et al., Moment Matching for Multi-Source Domain Adaptation, ICCV 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack

from galafed.algorithms.base import Algorithm, Outcome, algorithms
from galafed.bounds import at_least, positive
from galafed.central import Statistics, classification, on_target, together
from galafed.discrepancy import inter_domain
from galafed.lazy import torch
from galafed.model import Model
from galafed.moments import moment_distance
from galafed.work import Batch, Descent, Fit, Outputs, Path, Readout, Step, task

if TYPE_CHECKING:
    from galafed.federation import Federation

PAIR = ("first", "second")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much the moments count, how many of them, and how often G answers the classifiers."""

    moment_weight: float = 0.5
    """λ on the moment distance."""
    moments: int = 2
    """Mean and variance; the public code for digits goes to order 5."""
    generator_steps: int = 4
    """Steps of G on the discrepancy after each step of the classifiers."""
    classifiers: Literal["shared", "each"] = "shared"
    """One pair for all sources, as in the public code for digits, or a pair for each, as in the paper."""
    statistics: Statistics = "target"

    def __post_init__(self) -> None:
        positive("moment_weight", self.moment_weight)
        at_least("moments", self.moments, 1)
        at_least("generator_steps", self.generator_steps, 1)


def pairs_of(sources: Sequence[str], classifiers: str) -> dict[tuple[str, str], str]:
    """The part that holds the first and the second classifier of every source: F_i, F_i'."""
    suffixes = {source: f"{source}." if classifiers == "each" else "" for source in sources}
    return {(source, one): f"predictor:{suffixes[source]}{one}" for source in sources for one in PAIR}


@task
def match_moments(
    *,
    sources: Sequence[str],
    target: str,
    moment_weight: float,
    moments: int,
    generator_steps: int,
    classifiers: str,
    **sgd: Unpack[Descent],
) -> Fit:
    """Every batch: A, all learn labels and G matches moments; B, the pairs part on the target; C, G reunites them."""
    domains, pairs = (*sources, target), pairs_of(sources, classifiers)
    heads = tuple(dict.fromkeys(pairs.values()))
    features: dict[str, Path] = {f"features {domain}": (f"@{domain}", "extractor") for domain in domains}
    labelled = {f"{one} {source}": (f"@{source}", "extractor", head) for (source, one), head in pairs.items()}
    opinions = {f"{one} {source} on": (f"@{target}", "extractor", head) for (source, one), head in pairs.items()}

    def labels(outputs: Outputs, batch: Batch) -> torch.Tensor:
        """Σ of both classifiers' cross-entropies, the mean over sources."""
        return torch.stack([classification(outputs, batch, sources, one).mean() for one in PAIR]).sum()

    def disagreement(outputs: Outputs, batch: Batch) -> torch.Tensor:
        """E |p_i - p_i'|, the mean over target images, classes and sources."""
        p, q = (torch.stack([outputs[f"{one} {s} on"].softmax(dim=-1) for s in sources]) for one in PAIR)
        return inter_domain(p, q) / p.shape[-1]

    def learn(outputs: Outputs, batch: Batch) -> torch.Tensor:
        distance = moment_distance([outputs[f"features {domain}"] for domain in domains], orders=moments)
        return labels(outputs, batch) + moment_weight * distance

    def part(outputs: Outputs, batch: Batch) -> torch.Tensor:
        return labels(outputs, batch) - disagreement(outputs, batch)

    reunite = Step(outputs=opinions, loss=disagreement, update=("extractor",))
    # No dropout in the classifiers, as in its own linear ones: two masks would be taken for disagreement.
    return together(
        Step(outputs=features | labelled, loss=learn, update=("extractor", *heads)),
        Step(outputs=labelled | opinions, loss=part, update=heads),
        *[reunite] * generator_steps,
        modes=dict.fromkeys(heads, "no_dropout"),
        **sgd,
    )


@algorithms.register("m3sda")
class M3sda(Algorithm[Settings]):
    """Matched moments, and a pair of classifiers that G has to reconcile."""

    kind = "central"
    paper = "Peng et al., Moment Matching for Multi-Source Domain Adaptation, ICCV 2019"
    sends = "all images of all domains, once, to one place; the target receives the model"
    Settings = Settings
    recommended: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "digits": {
            "rounds": 30,
            "training.lr": 0.005,  # with the 0.05 of the public code, the network of digits never leaves chance
            "training.schedule": "cosine",
            "training.decay": 0.001,
            "training.batch_size": 64,
        }
    }

    def start(self, fed: Federation, model: Model) -> Model:
        heads = self.readout(fed.domains).parts[1:]
        return Model({"extractor": model.extractor, **{head: fed.fresh(head) for head in heads}})

    def readout(self, sources: Sequence[str]) -> Readout:
        """The mean of all classifiers' probabilities."""
        heads = dict.fromkeys(pairs_of(sources, self.settings.classifiers).values())
        return Readout(tuple(("extractor", head) for head in heads), "mean")

    def round(self, fed: Federation, model: Model) -> Outcome:
        my, sgd = self.settings, self.sgd(fed.round)
        (reply,) = fed.ask(
            fed.sources,
            match_moments(
                sources=fed.domains,
                target=fed.target,
                moment_weight=my.moment_weight,
                moments=my.moments,
                generator_steps=my.generator_steps,
                classifiers=my.classifiers,
                **sgd,
            ),
            model,
        )
        model, heads = Model(reply.parts), self.readout(fed.domains).parts[1:]
        target_statistics = my.statistics == "target"
        return Outcome(
            model=model,
            tested=on_target(fed, model, heads=heads, batch_size=sgd["batch_size"]) if target_statistics else None,
            loss=reply.metrics["loss"],
            discrepancy=reply.metrics["loss_3"] * fed.network.classes,
        )
