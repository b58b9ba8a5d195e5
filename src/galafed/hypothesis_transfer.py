"""SHOT's tasks at the target: label the images by class means, then move the extractor under a frozen predictor.

A task works on several models at once: "svhn" stands for the parts "extractor:svhn" and "predictor:svhn", and "" for
"extractor" and "predictor". The class means stay at the target, and so do the labels of single images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Unpack

from galafed.lazy import torch
from galafed.model import State, statistics
from galafed.relevance import centroids_from, soft_sums
from galafed.tasks import centroid_schema
from galafed.work import HIDDEN, Batch, Descent, Finished, Fit, Mode, Outputs, Path, States, Step, Sweep, descent, task

Sums = Mapping[str, "torch.Tensor"]


def part(kind: str, model: str) -> str:
    """The part of a kind that belongs to a model: "extractor:svhn"."""
    return f"{kind}:{model}" if model else kind


def information_loss(logits: torch.Tensor) -> torch.Tensor:
    """mean_x H(p(x)) - H(mean_x p(x)): low when predictions are sure and varied; for logits [n, C]."""
    p = logits.softmax(dim=-1)
    return entropy(p).mean() - entropy(p.mean(dim=0))


def entropy(p: torch.Tensor) -> torch.Tensor:
    """H(p) = -Σ_c p_c log p_c, over the last dimension."""
    return -(p * p.clamp_min(torch.finfo(p.dtype).tiny).log()).sum(dim=-1)


@dataclass(frozen=True)
class TransferLoss:
    """β ℓ(h(x), label) + information loss, with the labels that `nearest_means` gave a model's images."""

    model: str
    pseudo_weight: float

    def __call__(self, outputs: Outputs, batch: Batch) -> torch.Tensor:
        pseudo = torch.nn.functional.cross_entropy(outputs["logits"], batch.rows[f"label {self.model}"])
        return self.pseudo_weight * pseudo + information_loss(outputs["logits"])


def class_sums(features: torch.Tensor, membership: torch.Tensor, guess: torch.Tensor) -> dict[str, torch.Tensor]:
    """Σ_x δ_c(x) ẑ(x) [C, d+1] and Σ_x δ_c(x) [C] for memberships δ [n, C], and how many were guessed of each class."""
    from galafed.networks.parts.class_means import direction

    counted = torch.nn.functional.one_hot(guess, membership.shape[1])
    return {"sum": membership.T @ direction(features), "mass": membership.sum(dim=0), "count": counted.sum(dim=0)}


def means_from(sums: Sums, model: str, dtype: torch.dtype) -> State:
    """The state of "class_means": Σ δ_c ẑ / Σ δ_c; a class nobody was guessed to belong to has no mean."""
    total, mass, count = (sums[f"{name} {model}"] for name in ("sum", "mass", "count"))
    means = total / mass.clamp_min(torch.finfo(torch.float32).tiny)[:, None]
    return {"means": means.to(dtype), "count": count.to(dtype)}


Level = Literal["hidden", "features"]
"""What class means are of: what enters the predictor's last layer, or what the extractor puts out."""


def _inner(model: str, of: Level) -> Path:
    """From the images to what class means are of."""
    G, F = part("extractor", model), part("predictor", model)
    return (G,) if of == "features" else (G, f"{F}{HIDDEN}")


def _means(models: Sequence[str], guessing: Mapping[str, Path], *, of: Level, soft: bool) -> Sweep:
    """Class means of every model, from the scores along the paths of `guessing`; they stay for this round."""

    def measure(outputs: Outputs, batch: Batch) -> dict[str, torch.Tensor]:
        sums: dict[str, torch.Tensor] = {}
        for model in models:
            scores = outputs[f"scores {model}"]
            guess = scores.argmax(dim=1)
            hard = torch.nn.functional.one_hot(guess, scores.shape[1]).to(scores.dtype)
            found = class_sums(outputs[f"features {model}"], scores.softmax(dim=1) if soft else hard, guess)
            sums |= {f"{name} {model}": value for name, value in found.items()}
        return sums

    kept = {model: part(f"class_means:{of}", model) for model in models}
    return Sweep(
        outputs={f"features {model}": _inner(model, of) for model in models}
        | {f"scores {model}": guessing[model] for model in models},
        measure=measure,
        finish=lambda sums, dtype: {name: means_from(sums, model, dtype) for model, name in kept.items()},
        keeps=tuple(kept.values()),
        recall=() if soft else tuple(kept.values()),
        schema=lambda network: {},
    )


@task
def centroids_under(*, models: Sequence[str]) -> Sweep:
    """Soft class centroids of the client's images under each model, as `centroids` has them under one."""

    def measure(outputs: Outputs, batch: Batch) -> dict[str, torch.Tensor]:
        return {
            f"{name} {model}": value
            for model in models
            for name, value in soft_sums(outputs[f"features {model}"], outputs[f"logits {model}"]).items()
        }

    def finish(sums: Sums, dtype: torch.dtype) -> dict[str, State]:
        own = {model: {name: sums[f"{name} {model}"] for name in ("weighted", "mass")} for model in models}
        return {part("centroids", model): centroids_from(own[model], dtype) for model in models}

    return Sweep(
        outputs={f"features {model}": (part("extractor", model),) for model in models}
        | {f"logits {model}": (part("extractor", model), part("predictor", model)) for model in models},
        measure=measure,
        finish=finish,
        schema=lambda network: {part("centroids", model): centroid_schema(network) for model in models},
    )


@task
def first_means(*, models: Sequence[str], of: Level) -> Sweep:
    """Class means weighted by the models' own probabilities."""
    paths = {model: (part("extractor", model), part("predictor", model)) for model in models}
    return _means(models, paths, of=of, soft=True)


@task
def better_means(*, models: Sequence[str], of: Level) -> Sweep:
    """Class means of the images nearest to the first ones."""
    return _means(models, {model: _nearest(model, of) for model in models}, of=of, soft=False)


@task
def nearest_means(*, models: Sequence[str], of: Level) -> Sweep:
    """The class with the nearest mean, for every image and model; the labels stay."""
    return Sweep(
        outputs={model: _nearest(model, of) for model in models},
        measure=lambda outputs, batch: {f"label {model}": outputs[model].argmax(dim=1) for model in models},
        rows=tuple(f"label {model}" for model in models),
        finish=lambda found, dtype: {},
        recall=tuple(part(f"class_means:{of}", model) for model in models),
        schema=lambda network: {},
    )


def _nearest(model: str, of: Level) -> Path:
    return (*_inner(model, of), part(f"class_means:{of}", model))


@task
def adapt_extractors(
    *,
    models: Sequence[str],
    pseudo_weight: float,
    hold: str,
    **sgd: Unpack[Descent],
) -> Fit:
    """β ℓ(F(G(x)), label) + information loss, for every model on its own: G moves, and of F the BatchNorm statistics.

    Both are sent, and the models are held under a tag. SHOT freezes a linear layer, which has no statistics; those of
    a deeper predictor would otherwise stay the source's, and normalise the target by them.
    """

    def step(model: str) -> Step:
        G, F = part("extractor", model), part("predictor", model)
        return Step(outputs={"logits": (G, F)}, loss=TransferLoss(model, pseudo_weight), update=(G,))

    def finish(states: States) -> Finished:
        sends = {G: states[G] for G in extractors}
        sends |= {part("statistics", model): statistics(states[part("predictor", model)]) for model in models}
        return Finished(sends=sends, holds={f"{hold}/{name}": state for name, state in states.items()})

    extractors = [part("extractor", model) for model in models]
    frozen: Mode = "no_dropout"
    return Fit(
        steps=tuple(step(model) for model in models),
        **descent(sgd),
        labelled=False,
        modes={part("predictor", model): frozen for model in models},
        rows=tuple(f"label {model}" for model in models),
        finish=finish,
        schema=lambda network: {
            name: network.schema(name)
            for model in models
            for name in (part("extractor", model), part("statistics", model))
        },
    )
