"""Tasks at the target: ask the source models for labels, by KD3A's vote or a weighted one, and learn them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from galafed.consensus_focus import Form, consensus_focus, knowledge_vote
from galafed.lazy import torch
from galafed.tasks import CLASSIFY
from galafed.work import Batch, Descent, Finished, Fit, Outputs, Step, Sweep, descent, task

if TYPE_CHECKING:
    from galafed.model import Schema
    from galafed.networks.base import Network


@task
def consensus(*, sources: Sequence[str], gate: float, form: Form, seed: int, batch_size: int) -> Sweep:
    """What the models "extractor:n", "predictor:n" of the sources agree on, image by image; the focus of each is sent.

    The models normalise with the statistics of the target's batches. Labels and whether they are kept stay as rows.
    """

    def measure(outputs: Outputs, batch: Batch) -> dict[str, torch.Tensor]:
        logits = torch.stack([outputs[source] for source in sources], dim=1)  # [n, N, C]
        confidence, vote = logits.softmax(dim=-1).max(dim=-1)
        found = knowledge_vote(confidence, vote, gate=gate, classes=logits.shape[-1])
        return {"confidence": confidence, "vote": vote, "consensus": found.label, "kept": found.kept}

    def finish(found: Mapping[str, torch.Tensor], dtype: torch.dtype) -> dict[str, dict[str, torch.Tensor]]:
        classes = int(found["vote"].max()) + 1
        focus = consensus_focus(found["confidence"], found["vote"], gate=gate, classes=classes, form=form, seed=seed)
        return {"focus": {"focus": focus.to(dtype), "kept": found["kept"].to(dtype).mean()}}

    def schema(network: Network) -> dict[str, Schema]:
        return {"focus": {"focus": ((len(sources),), True), "kept": ((), True)}}

    return Sweep(
        outputs={source: (f"extractor:{source}", f"predictor:{source}") for source in sources},
        measure=measure,
        rows=("confidence", "vote", "consensus", "kept"),
        finish=finish,
        schema=schema,
        batch_size=batch_size,
        mode="no_dropout",
    )


@task
def weighted_vote(*, weights: Mapping[str, float], batch_size: int) -> Sweep:
    """argmax_c Σ_n w_n p_n(c | x) with the models "extractor:n", "predictor:n"; the labels stay, and all are kept.

    The models normalise with the statistics of the target's batches.
    """

    def measure(outputs: Outputs, batch: Batch) -> dict[str, torch.Tensor]:
        mixture = torch.stack([w * outputs[n].softmax(dim=-1) for n, w in weights.items()]).sum(dim=0)
        return {"consensus": mixture.argmax(dim=-1), "kept": torch.ones_like(mixture[:, 0], dtype=torch.bool)}

    return Sweep(
        outputs={source: (f"extractor:{source}", f"predictor:{source}") for source in weights},
        measure=measure,
        rows=("consensus", "kept"),
        finish=lambda found, dtype: {},
        schema=lambda network: {},
        batch_size=batch_size,
        mode="no_dropout",
    )


def consensus_loss(outputs: Outputs, batch: Batch) -> torch.Tensor:
    """mean_x kept(x) ( λ ℓ(·, y) + (1 - λ) ℓ(·, y') ) for images λ x + (1 - λ) x' with consensus labels y and y'."""
    rows, loss = batch.rows, torch.nn.functional.cross_entropy
    each = loss(outputs["logits"], rows["consensus"], reduction="none")
    if batch.mixed is not None:
        other = loss(outputs["logits"], batch.mixed.rows["consensus"], reduction="none")
        each = batch.mixed.share * each + (1 - batch.mixed.share) * other
    return (rows["kept"] * each).mean()


@task
def distill(
    *,
    mixup: float,
    hold: str,
    **sgd: Unpack[Descent],
) -> Fit:
    """The target's (G, F) learn the labels its sources gave; it holds them under a tag, in case they come back."""
    parts = ("extractor", "predictor")
    return Fit(
        steps=(Step(outputs=CLASSIFY, loss=consensus_loss, update=parts),),
        **descent(sgd),
        labelled=False,
        mixup=mixup,
        rows=("consensus", "kept"),
        finish=lambda states: Finished(sends=states, holds={f"{hold}/{part}": states[part] for part in parts}),
        schema=lambda network: {part: network.schema(part) for part in parts},
    )
