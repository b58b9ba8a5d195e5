"""The fine-tuned heads F_n of a round of GALA, and how IDD and IGD of them vary on the target's images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from galafed.benchmarks.base import benchmarks
from galafed.config import Run
from galafed.discrepancy import inter_domain
from galafed.loops import Bench, set_modes
from galafed.messages import Held, Reply
from galafed.model import State, weighted_mean
from galafed.reproduction.estimators import Choice, Spread, pairs, splits
from galafed.reproduction.timing import TimedRounds
from galafed.runs.assembly import unlabelled
from galafed.runs.seeding import generator


@dataclass(frozen=True)
class Heads:
    """G' and every F_n of one round, and a batch of the target's images."""

    extractor: State
    predictors: Mapping[str, State]
    images: Tensor
    bench: Bench


def heads_after(config: Run, images: int) -> Heads:
    """Play all rounds of a run of GALA and keep what its last round asked of the sources: F_n, on frozen G'."""
    run = TimedRounds(config, keep=("tune",))
    for number in range(config.rounds):
        run.round(number)
    run.close()
    extractor = run.jobs["tune"].payload["extractor"]
    if isinstance(extractor, Held):
        raise TypeError("the consensus extractor is always sent")
    answers = sorted((a for a in run.answers["tune"] if isinstance(a, Reply)), key=lambda answer: answer.client)
    predictors = {answer.client: dict(answer.parts["predictor"]) for answer in answers}
    whole = unlabelled(benchmarks.get(config.benchmark)(config.benchmark_settings).load(config.target).train)
    order = torch.randperm(len(whole), generator=generator(config.seed, "variance", "images"))[:images]
    bench = Bench(run.network, run.device)
    data = whole.images[order].to(run.device)
    return Heads(dict(extractor), predictors, bench.network.prepare(data, bench.dtype), bench)


def compare(heads: Heads, at_most: int, rng: torch.Generator) -> dict[str, Any]:
    """Of IDD and of both readings of IGD: mean, variance and relative variance of the loss, and the gradient's noise.

    `noise_to_signal` is tr Cov(g) / ‖E g‖² of the gradient g with respect to G over choices; `cosine` is that of E g
    and the gradient of the full pairwise discrepancy, which is E g of IDD.
    """
    count = len(heads.predictors)
    halves = splits(count, rng, at_most)
    found = {
        "IDD": _losses(heads, pairs(count), of_parameters=True),
        "IGD, parameters averaged": _losses(heads, halves, of_parameters=True),
        "IGD, outputs averaged": _losses(heads, halves, of_parameters=False),
    }
    whole = found["IDD"][1].mean(dim=0)
    return {
        "sources": count,
        "images": len(heads.images),
        **{name: _told(losses, gradients, whole) for name, (losses, gradients) in found.items()},
    }


def _told(losses: Tensor, gradients: Tensor, whole: Tensor) -> dict[str, float]:
    spread, middle = Spread.of(losses), gradients.mean(dim=0)
    noise = (gradients - middle).square().sum(dim=1).mean()
    return {
        "choices": len(losses),
        "mean": spread.mean,
        "variance": spread.variance,
        "relative_variance": spread.relative,
        "noise_to_signal": float(noise / middle.square().sum()),
        "cosine": float(torch.nn.functional.cosine_similarity(middle, whole, dim=0)),
    }


def _losses(heads: Heads, choices: Sequence[Choice], *, of_parameters: bool) -> tuple[Tensor, Tensor]:
    """The loss of every choice [choices] and its gradient with respect to G [choices, parameters].

    BatchNorm normalises with the batch, as in the alignment; dropout is off, which would add noise of another kind.
    """
    modules = heads.bench.modules({"extractor": heads.extractor, "predictor": next(iter(heads.predictors.values()))})
    set_modes(modules, dict.fromkeys(modules, "no_dropout"))
    parameters = list(modules["extractor"].requires_grad_(True).parameters())
    names = list(heads.predictors)
    features = modules["extractor"](heads.images)

    def probabilities(group: Sequence[int]) -> Tensor:
        state = weighted_mean({names[n]: heads.predictors[names[n]] for n in group}, _equal([names[n] for n in group]))
        logits: Tensor = torch.func.functional_call(modules["predictor"], state, features)
        return logits.softmax(dim=-1)

    alone = [] if of_parameters else [probabilities((n,)) for n in range(len(names))]

    def group_of(group: Sequence[int]) -> Tensor:
        return probabilities(group) if of_parameters else torch.stack([alone[n] for n in group]).mean(dim=0)

    losses, gradients = [], []
    for first, second in choices:
        loss = inter_domain(group_of(first), group_of(second))
        gradient = torch.autograd.grad(loss, parameters, retain_graph=True)
        losses.append(loss.detach())
        gradients.append(torch.cat([part.flatten() for part in gradient]))
    return torch.stack(losses).double().cpu(), torch.stack(gradients).double().cpu()


def _equal(names: Sequence[str]) -> dict[str, float]:
    return dict.fromkeys(names, 1 / len(names))
