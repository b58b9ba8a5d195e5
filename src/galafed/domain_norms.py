"""The work of DSBN: paths with BatchNorm layers of a domain's own, semantic transfer (MSTN) and self-training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from galafed.adversarial import DISCERNING_RATE, domain_loss
from galafed.central import classification, together
from galafed.lazy import torch
from galafed.model import State
from galafed.prototypes import moved, semantic_distance
from galafed.work import Batch, Descent, Fit, Outputs, Path, Step, Sweep, task

if TYPE_CHECKING:
    from galafed.networks.base import Network

MODULES = ("extractor", "predictor")


def normed(network: Network) -> tuple[str, ...]:
    """The modules of a network that have any BatchNorm layer."""
    return tuple(module for module in MODULES if network.schema(f"norms:{module}:"))


def through(domain: str, modules: Sequence[str]) -> Path:
    """The shared extractor and predictor with the BatchNorm layers of a domain, for its images."""
    return (f"@{domain}", *(f"{m}|norms:{m}:{domain}" if m in modules else m for m in MODULES))


def norms_of(domains: Sequence[str], modules: Sequence[str]) -> tuple[str, ...]:
    """The parts that hold the BatchNorm layers of every domain."""
    return tuple(f"norms:{module}:{domain}" for domain in domains for module in modules)


def seen_by(domain: str, parts: Mapping[str, State]) -> dict[str, State]:
    """A plain extractor and predictor with the BatchNorm layers of a domain."""
    return {module: parts[module] | parts.get(f"norms:{module}:{domain}", {}) for module in MODULES}


@task
def transfer_semantics(
    *,
    sources: Sequence[str],
    target: str,
    modules: Sequence[str],
    adversarial_weight: float,
    semantic_weight: float,
    rate: float,
    **sgd: Unpack[Descent],
) -> Fit:
    """Stage 1, every batch: labels, deceived D_i, and class centroids of target (pseudo-labels) and sources drawn near.

    All of it happens in the space of logits, as in the public code.
    """
    domains = (*sources, target)
    logits = {f"predictor {domain}": through(domain, modules) for domain in domains}
    known = {f"centroids {domain}": (f"@{domain}", f"centroids:{domain}") for domain in domains}
    discriminators = {source: f"discriminator:logits:{source}" for source in sources}
    judged: dict[str, Path] = {}
    for source, discriminator in discriminators.items():
        for domain in (source, target):
            judged[f"{source} judges {domain}"] = (*through(domain, modules), discriminator)

    def centroids(outputs: Outputs, batch: Batch) -> dict[str, torch.Tensor]:
        """c_k of every domain after this batch: by its labels, on the target by its predictions."""
        found = {}
        for domain in domains:
            features, labels = outputs[f"predictor {domain}"], batch.streams[domain].labels
            labels = features.detach().argmax(dim=-1) if labels is None else labels
            found[domain] = moved(outputs[f"centroids {domain}"], features, labels, rate=rate)
        return found

    def remember(outputs: Outputs, batch: Batch) -> dict[str, State]:
        return {f"centroids:{domain}": {"means": means} for domain, means in centroids(outputs, batch).items()}

    def game(outputs: Outputs) -> torch.Tensor:
        losses = [domain_loss(outputs[f"{s} judges {s}"], outputs[f"{s} judges {target}"]) for s in sources]
        return torch.stack(losses).mean() / 2

    def adapt(outputs: Outputs, batch: Batch) -> torch.Tensor:
        near = centroids(outputs, batch)
        distance = torch.stack([semantic_distance(near[source], near[target]) for source in sources]).mean()
        loss = classification(outputs, batch, sources).mean()
        return loss + semantic_weight * distance - adversarial_weight * game(outputs)

    return together(
        Step(
            outputs=logits | known | judged,
            loss=adapt,
            update=(*MODULES, *norms_of(domains, modules)),
            remember=remember,
        ),
        Step(outputs=judged, loss=lambda outputs, batch: game(outputs), update=tuple(discriminators.values())),
        rates=dict.fromkeys(discriminators.values(), DISCERNING_RATE),
        **sgd,
    )


@task
def pseudo_label(*, target: str, modules: Sequence[str], trust: float) -> Sweep:
    """y' = argmax((1 - λ) teacher's logits + λ student's logits) for every target image; they stay."""

    def measure(outputs: Outputs, batch: Batch) -> dict[str, torch.Tensor]:
        return {"pseudo_label": outputs["teacher"].lerp(outputs["student"], trust).argmax(dim=-1)}

    teacher = (f"@{target}", "extractor:teacher", "predictor:teacher")
    return Sweep(
        outputs={"teacher": teacher, "student": through(target, modules)},
        measure=measure,
        rows=("pseudo_label",),
        finish=lambda found, dtype: {},
        schema=lambda network: {},
    )


@task
def self_train(*, sources: Sequence[str], target: str, modules: Sequence[str], **sgd: Unpack[Descent]) -> Fit:
    """Stage 2, every batch: the labels of the sources and the pseudo-labels of the target."""
    domains = (*sources, target)

    def learn(outputs: Outputs, batch: Batch) -> torch.Tensor:
        guessed = batch.streams[target].rows["pseudo_label"]
        loss = torch.nn.functional.cross_entropy(outputs[f"predictor {target}"], guessed)
        return classification(outputs, batch, sources).mean() + loss

    logits = {f"predictor {domain}": through(domain, modules) for domain in domains}
    return together(
        Step(outputs=logits, loss=learn, update=(*MODULES, *norms_of(domains, modules))),
        rows=("pseudo_label",),
        **sgd,
    )
