"""What the central methods share: the data of all domains lies in one place, each domain a stream of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Unpack

from galafed.lazy import torch
from galafed.model import Model
from galafed.tasks import no_loss
from galafed.work import Batch, Descent, Finished, Fit, Mode, Outputs, Path, Sgd, Step, descent, task

if TYPE_CHECKING:
    from galafed.federation import Federation

Statistics = Literal["target", "mixed"]
"""Whose BatchNorm statistics a central method is tested with: the target's, or those training happened to leave."""


def at(domains: Sequence[str], *modules: str) -> dict[str, Path]:
    """One path for each domain, through the same modules, under the domain's name and the last module's.

    at(("svhn",), "extractor") is {"extractor svhn": ("@svhn", "extractor")}.
    """
    return {f"{modules[-1]} {domain}": (f"@{domain}", *modules) for domain in domains}


def classification(outputs: Outputs, batch: Batch, domains: Sequence[str], head: str = "predictor") -> torch.Tensor:
    """ℓ_i, the cross-entropy of each labelled domain: [N]."""
    losses = []
    for domain in domains:
        labels = batch.streams[domain].labels
        if labels is None:
            raise ValueError(f"the images of {domain} have no labels")
        losses.append(torch.nn.functional.cross_entropy(outputs[f"{head} {domain}"], labels))
    return torch.stack(losses)


def together(
    *steps: Step,
    rows: tuple[str, ...] = (),
    rates: Mapping[str, float] | None = None,
    modes: Mapping[str, Mode] | None = None,
    **sgd: Unpack[Descent],
) -> Fit:
    """A fit on all streams at once, one batch of each a step; every module that takes part is sent back."""
    fit = Fit(
        steps=steps,
        **descent(sgd),
        labelled=True,
        rows=rows,
        rates=rates or {},
        modes=modes or {},
        finish=lambda states: Finished(sends=states),
        schema=lambda network: {part: network.schema(part) for part in fit.modules},
    )
    return fit


@task
def refresh(*, heads: Sequence[str], batch_size: int) -> Fit:
    """Learn nothing: one pass over the client's images that moves the BatchNorm statistics of G and the heads."""
    outputs = {head: ("extractor", head) for head in heads}
    parts = ("extractor", *heads)
    return Fit(
        steps=(Step(outputs=outputs, loss=no_loss, update=()),),
        optimiser=Sgd(lr=0.0),
        batch_size=batch_size,
        labelled=False,
        modes=dict.fromkeys(parts, "no_dropout"),
        finish=lambda states: Finished(sends=states),
        schema=lambda network: {part: network.schema(part) for part in parts},
    )


def on_target(fed: Federation, model: Model, *, heads: Sequence[str] = ("predictor",), batch_size: int) -> Model:
    """The model with BatchNorm statistics of the target, which the training of all domains had mixed.

    In training every domain is normalised by its own batches, and so the target is in a test.
    """
    parts = {part: model.parts[part] for part in ("extractor", *heads)}
    refreshed = fed.ask(fed.target, refresh(heads=list(heads), batch_size=batch_size), parts)
    return Model({part: refreshed[part][fed.target] for part in parts})
