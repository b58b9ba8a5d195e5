"""The work of FADA: sources train and disentangle, share some features, and the target confronts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from galafed.adversarial import DISCERNING_RATE, domain_loss
from galafed.disentanglement import class_confusion, gap_statistic, mutual_information
from galafed.lazy import torch
from galafed.tasks import cross_entropy
from galafed.work import Batch, Descent, Finished, Fit, Outputs, Path, States, Step, Sweep, descent, task

LOCAL = (
    "disentangler", "identifier", "critic:features", "critic:specific", "reconstructor:features",
    "reconstructor:specific",
)  # fmt: skip
"""Made by each source for itself; a reconstructor above all has no business elsewhere."""

CLUSTERED = 256
"""Target images whose features are clustered in a round."""


def information(outputs: Outputs) -> torch.Tensor:
    """I(f; f'), of features f and domain-specific f' of the same images against those of their neighbours."""
    f, specific = outputs["critic:features"], outputs["critic:specific"]
    return mutual_information((f * specific).sum(dim=-1), (f * specific.roll(1, dims=0)).sum(dim=-1))


def reconstruction(outputs: Outputs, batch: Batch) -> torch.Tensor:
    """mean (x̂ - x)² over a thumbnail of the image, from both kinds of features."""
    drawn = outputs["reconstructor:features"] + outputs["reconstructor:specific"]
    side = round((drawn.shape[-1] / 3) ** 0.5)
    seen = torch.nn.functional.adaptive_avg_pool2d(batch.images, side).flatten(start_dim=1)
    return (drawn - seen).square().mean()


@task
def disentangle(
    *,
    adversarial_weight: float,
    disentangling_weight: float,
    **sgd: Unpack[Descent],
) -> Fit:
    """A source, every batch: learn labels, pull features apart and hide the domain; then hide the class in f'.

    The critic's paths reverse gradients: it raises the estimate of mutual information, G and the disentangler lower it.
    """

    def learn(outputs: Outputs, batch: Batch) -> torch.Tensor:
        labels = cross_entropy(outputs, batch) + cross_entropy({"logits": outputs["guess"]}, batch)
        apart = reconstruction(outputs, batch) - information(outputs)
        seems_target = torch.nn.functional.softplus(outputs["domain"]).mean()  # the source's half of the game
        return labels + disentangling_weight * apart + adversarial_weight * seems_target

    def hide(outputs: Outputs, batch: Batch) -> torch.Tensor:
        return class_confusion(outputs["guess"])

    def finish(states: States) -> Finished:
        sends = {part: states[part] for part in ("extractor", "predictor")}
        return Finished(sends=sends, stays={"extractor": states["extractor"]})

    guess: dict[str, Path] = {"guess": ("disentangler", "identifier")}
    everything: dict[str, Path] = guess | {
        "logits": ("extractor", "predictor"),
        "domain": ("extractor", "discriminator"),
        "critic:features": ("extractor", "reverse", "critic:features"),
        "critic:specific": ("disentangler", "reverse", "critic:specific"),
        "reconstructor:features": ("extractor", "reconstructor:features"),
        "reconstructor:specific": ("disentangler", "reconstructor:specific"),
    }
    return Fit(
        steps=(
            Step(outputs=everything, loss=learn, update=("extractor", "predictor", *LOCAL)),
            Step(outputs=guess, loss=hide, update=("disentangler",)),
        ),
        **descent(sgd),
        labelled=True,
        own=LOCAL,
        finish=finish,
        schema=lambda network: {part: network.schema(part) for part in ("extractor", "predictor")},
    )


@task
def share_features(*, count: int) -> Sweep:
    """Features G_n(x) of `count` of the source's images [count, d], by the extractor it just trained; too few recur."""

    def finish(found: Mapping[str, torch.Tensor], dtype: torch.dtype) -> States:
        rows = found["features"]
        return {"bank": {"features": rows[torch.arange(count, device=rows.device) % len(rows)]}}

    return Sweep(
        outputs={"features": ("extractor",)},
        measure=lambda outputs, batch: {"features": outputs["features"]},
        rows=("features",),
        sample=count,
        finish=finish,
        recall=("extractor",),
        schema=lambda network: {"bank": network.schema(f"bank:{count}:")},
    )


@task
def cluster_target(*, clusters: int) -> Sweep:
    """The gap statistic of the target's features under an extractor."""
    return Sweep(
        outputs={"features": ("extractor",)},
        measure=lambda outputs, batch: {"gap": gap_statistic(outputs["features"], clusters)},
        finish=lambda sums, dtype: {"gap": {"value": sums["gap"].to(dtype)}},
        schema=lambda network: {"gap": {"value": ((), True)}},
        sample=CLUSTERED,
        batch_size=CLUSTERED,
        mode="no_dropout",
    )


@task
def confront(
    *,
    sources: Sequence[str],
    count: int,
    adversarial_weight: float,
    **sgd: Unpack[Descent],
) -> Fit:
    """The target, every batch: each D_n learns to tell source n's features from its own, then G makes them alike."""
    discriminators = {source: f"discriminator:{source}" for source in sources}
    banks = {f"{s} as source": (f"bank:{count}:{s}", part) for s, part in discriminators.items()}
    own = {f"{s} as target": ("extractor", part) for s, part in discriminators.items()}

    def discern(outputs: Outputs, batch: Batch) -> torch.Tensor:
        losses = [domain_loss(outputs[f"{s} as source"], outputs[f"{s} as target"]) for s in sources]
        return torch.stack(losses).sum()

    def deceive(outputs: Outputs, batch: Batch) -> torch.Tensor:
        seems_source = [torch.nn.functional.softplus(-outputs[f"{s} as target"]).mean() for s in sources]
        return adversarial_weight * torch.stack(seems_source).mean()

    sent = ("extractor", "predictor", *discriminators.values())
    # The logits are there for the BatchNorm statistics of F, which become the target's as those of G do.
    return Fit(
        steps=(
            Step(outputs=banks | own, loss=discern, update=tuple(discriminators.values())),
            Step(outputs=own | {"logits": ("extractor", "predictor")}, loss=deceive, update=("extractor",)),
        ),
        **descent(sgd),
        labelled=False,
        rates=dict.fromkeys(discriminators.values(), DISCERNING_RATE),
        modes={"predictor": "no_dropout"},
        finish=lambda states: Finished(sends={part: states[part] for part in sent}),
        schema=lambda network: {part: network.schema(part) for part in sent},
    )
