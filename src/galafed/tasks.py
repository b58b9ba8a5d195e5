"""The named tasks of the project, each a small declaration made of `Fit` or `Sweep`.

Arguments are plain values, so that a task can be asked for by name at another site.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal, Unpack

from galafed.discrepancy import inter_group
from galafed.familiarity import LEVELS, SAMPLE, joined, profile_from
from galafed.lazy import torch
from galafed.model import Schema, Variance, statistics, weighted_mean
from galafed.relevance import centroids_from, soft_sums
from galafed.work import (
    Batch,
    Descent,
    Finished,
    Fit,
    Mode,
    Outputs,
    Readout,
    Rule,
    Sgd,
    States,
    Step,
    Sweep,
    descent,
    task,
)

if TYPE_CHECKING:
    from galafed.networks.base import Network

CLASSIFY = {"logits": ("extractor", "predictor")}
SINGLE = Readout()


def cross_entropy(outputs: Outputs, batch: Batch, smoothing: float = 0.0) -> torch.Tensor:
    """ℓ(F(G(x)), y) = -log p_y, the mean over the batch; for mixed images λ ℓ(·, y) + (1 - λ) ℓ(·, y').

    With smoothing ε, the label y stands for (1 - ε) of its class and ε / C of every class.
    """
    if batch.labels is None:
        raise ValueError("a labelled task was given an unlabelled batch")
    logarithms = outputs["logits"].log_softmax(dim=-1)

    def loss(labels: torch.Tensor) -> torch.Tensor:
        right = -logarithms.gather(-1, labels.unsqueeze(-1)).mean()
        return right if not smoothing else (1 - smoothing) * right - smoothing * logarithms.mean()

    if batch.mixed is None or batch.mixed.labels is None:
        return loss(batch.labels)
    share = batch.mixed.share
    return share * loss(batch.labels) + (1 - share) * loss(batch.mixed.labels)


@lru_cache(maxsize=16)
def smoothed(smoothing: float) -> Callable[[Outputs, Batch], torch.Tensor]:
    """`cross_entropy` with so much smoothing; asked for twice it is the same loss, which an engine may recognise."""
    return partial(cross_entropy, smoothing=smoothing) if smoothing else cross_entropy


def no_loss(outputs: Outputs, batch: Batch) -> torch.Tensor:
    """0: nothing is learned, but BatchNorm statistics move."""
    return batch.images.new_zeros(())


@dataclass(frozen=True)
class Disagreement:
    """scale · L_IGD of groups of heads with weights w̃ (Eq. 4); equal ones are the same loss to an engine."""

    groups: tuple[tuple[tuple[str, float], ...], ...]
    scale: float

    @classmethod
    def of(cls, groups: Sequence[Mapping[str, float]], scale: float) -> Disagreement:
        """From plain arguments."""
        return cls(tuple(tuple(sorted(group.items())) for group in groups), scale)

    def __call__(self, outputs: Outputs, batch: Batch) -> torch.Tensor:
        probabilities = {head: outputs[head].softmax(dim=-1) for group in self.groups for head, _ in group}
        return self.scale * inter_group(probabilities, [dict(group) for group in self.groups])


def centroid_schema(network: Network) -> Schema:
    """What the centroids of a domain look like."""
    return {"means": ((network.classes, network.feature_size), True), "share": ((network.classes,), True)}


@task
def centroids() -> Sweep:
    """Soft class centroids r^c of a domain under the received model, before any local step (Algorithm 1, line 3)."""
    return Sweep(
        outputs={"features": ("extractor",), **CLASSIFY},
        measure=lambda outputs, batch: soft_sums(outputs["features"], outputs["logits"]),
        finish=lambda sums, dtype: {"centroids": centroids_from(sums, dtype)},
        schema=lambda network: {"centroids": centroid_schema(network)},
    )


@task
def hold() -> Fit:
    """Do nothing with the received model: a client keeps a tagged model anyway, so that it need not be sent again."""
    return Fit(
        steps=(Step(outputs=CLASSIFY, loss=no_loss, update=()),),
        optimiser=Sgd(lr=0.0),
        batch_size=2,
        epochs=0,
        labelled=False,
        finish=lambda states: Finished(sends={}),
        schema=lambda network: {},
    )


@task
def train(
    *,
    mixup: float = 0.0,
    smoothing: float = 0.0,
    repeat: int = 0,
    send: Sequence[str] = ("extractor",),
    hold: str | None = None,
    **sgd: Unpack[Descent],
) -> Fit:
    """Local training of (G_n, F_n) on labelled images; what is not sent stays at the client for this round.

    Repeated, it goes on with what stayed. With `hold`, the client keeps what it sent under that tag, so that it need
    not be sent back to it.
    """

    def finish(states: States) -> Finished:
        return Finished(
            sends={part: states[part] for part in send},
            stays={part: states[part] for part in states if part not in send},
            holds={f"{hold}/{part}": states[part] for part in send} if hold else {},
        )

    both = ("extractor", "predictor")
    return Fit(
        steps=(Step(outputs=CLASSIFY, loss=smoothed(smoothing), update=both),),
        repeat=repeat,
        recall=both if repeat else (),
        **descent(sgd),
        labelled=True,
        mixup=mixup,
        finish=finish,
        schema=lambda network: {part: network.schema(part) for part in send},
    )


@task
def tune(
    *,
    mixup: float = 0.0,
    **sgd: Unpack[Descent],
) -> Fit:
    """Fine-tuning of the client's own F_n on the frozen consensus extractor G'.

    G' normalises with the source's batch statistics, as it will with the target's in the alignment; its own running
    statistics are not sent back.
    """
    return Fit(
        steps=(Step(outputs=CLASSIFY, loss=cross_entropy, update=("predictor",)),),
        **descent(sgd),
        labelled=True,
        mixup=mixup,
        recall=("predictor",),
        finish=lambda states: Finished(sends={"predictor": states["predictor"]}),
        schema=lambda network: {"predictor": network.schema("predictor")},
    )


@task
def align(
    *,
    groups: Sequence[Mapping[str, float]],
    scale: float,
    dropout: bool,
    share: Mapping[str, float] | None = None,
    hold: str | None = None,
    variance: Variance = "linear",
    **sgd: Unpack[Descent],
) -> Fit:
    """G' -> G'' on unlabelled images by the discrepancy of two groups of heads; the heads' parameters do not move.

    `groups` holds the weights w̃ of the heads "predictor:NAME" of each group; with fewer than two groups nothing is
    learned and only statistics move. Back travel G'' and the heads' BatchNorm statistics. With `hold`, the client
    keeps the next model under that tag, merging the heads by their `share`, so that it need not be sent to it again.
    """
    heads = sorted(head for group in groups for head in group)
    parts = {head: f"predictor:{head}" for head in heads}

    def finish(states: States) -> Finished:
        sends = {"extractor": states["extractor"]}
        sends |= {f"statistics:{head}": statistics(states[part]) for head, part in parts.items()}
        if hold is None or share is None:
            return Finished(sends=sends)
        merged = weighted_mean({head: states[part] for head, part in parts.items()}, share, variance=variance)
        return Finished(sends=sends, holds={f"{hold}/extractor": states["extractor"], f"{hold}/predictor": merged})

    learn = len(groups) == 2
    mode: Mode = "train" if dropout else "no_dropout"
    return Fit(
        steps=(
            Step(
                outputs={head: ("extractor", part) for head, part in parts.items()},
                loss=Disagreement.of(groups, scale) if learn else no_loss,
                update=("extractor",) if learn else (),
            ),
        ),
        **descent(sgd),
        labelled=False,
        modes=dict.fromkeys(("extractor", *parts.values()), mode),
        finish=finish,
        schema=lambda network: {
            part: network.schema(part) for part in ("extractor", *(f"statistics:{head}" for head in heads))
        },
    )


def read(probabilities: torch.Tensor, readout: Readout) -> torch.Tensor:
    """The probabilities [n, C] that decide, from those of every path [paths, n, C]."""
    if readout.rule == "mean":
        return probabilities.mean(dim=0)
    winner = probabilities.amax(dim=-1).argmax(dim=0)  # [n]
    return probabilities.gather(0, winner[None, :, None].expand(1, -1, probabilities.shape[-1]))[0]


def score(readout: Readout = SINGLE, *, labelled: bool) -> Sweep:
    """Sums for the accuracy (where labels are given) and the label-free criteria of a model on a set of images."""

    def measure(outputs: Outputs, batch: Batch) -> dict[str, torch.Tensor]:
        p = read(torch.stack([logits.softmax(dim=-1) for logits in outputs.values()]), readout).double()
        sums = {"images": torch.tensor(len(p), device=p.device)}
        if batch.labels is not None:
            return sums | {"correct": (p.argmax(dim=-1) == batch.labels).sum()}
        return sums | {"entropy": -(p * p.clamp_min(1e-30).log()).sum(), "probability": p.sum(dim=0)}

    def finish(sums: Mapping[str, torch.Tensor], dtype: torch.dtype) -> States:
        if not labelled:
            return {"seen": dict(sums)}
        nothing = torch.zeros((), dtype=torch.float64)
        return {"tested": {name: sums.get(name, nothing) for name in ("images", "correct")}}

    return Sweep(
        outputs={str(number): path for number, path in enumerate(readout.paths)},
        measure=measure,
        finish=finish,
        schema=lambda network: {},
        labelled=labelled,
        exact=True,
    )


@task
def evaluate(
    *, paths: Sequence[Sequence[str]] = SINGLE.paths, rule: Literal["confident", "mean"] = "confident"
) -> Sweep:
    """The client's unlabelled images seen, and its labelled test images tested, by a model; sums alone are sent."""
    readout = Readout(tuple(map(tuple, paths)), rule)
    number: tuple[tuple[int, ...], bool] = ((), True)
    return replace(
        score(readout, labelled=False),
        exam=score(readout, labelled=True),
        schema=lambda network: {
            "seen": {"images": number, "entropy": number, "probability": ((network.classes,), True)},
            "tested": {"images": number, "correct": number},
        },
    )


@task
def profile(*, paths: Sequence[Sequence[str]], rule: Rule) -> Sweep:
    """What the target's images look like to a model: soft centroids and distances to them, for later predictions.

    `paths` and `rule` are those of the model's readout.
    """
    readout = Readout(tuple(map(tuple, paths)), rule)
    logits = {f"logits:{number}": path for number, path in enumerate(readout.paths)}
    features = {f"features:{number}": path for number, path in enumerate(readout.extracting)}

    def measure(outputs: Outputs, batch: Batch) -> dict[str, torch.Tensor]:
        probabilities = torch.stack([outputs[name].softmax(dim=-1) for name in logits])
        return {
            "features": joined([outputs[name] for name in features]),
            "probabilities": read(probabilities, readout),
        }

    def schema(network: Network) -> dict[str, Schema]:
        size = network.feature_size * len(readout.extracting)
        shapes = {"means": (network.classes, size), "spread": (size,), "levels": (2, LEVELS)}
        return {"profile": {name: (shape, True) for name, shape in shapes.items()}}

    return Sweep(
        outputs=logits | features,
        measure=measure,
        rows=("features", "probabilities"),
        sample=SAMPLE,
        finish=lambda rows, dtype: {"profile": profile_from(rows["features"], rows["probabilities"], dtype)},
        schema=schema,
    )
