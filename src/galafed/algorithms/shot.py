"""SHOT: every source model is adapted to the target on its own, under its frozen predictor; their mean decides.

Liang, Hu, Feng: Do We Really Need to Access the Source Data? Source Hypothesis Transfer for Unsupervised Domain
Adaptation, ICML 2020.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.algorithms.base import Algorithm, Outcome, algorithms
from galafed.bounds import at_least, fraction
from galafed.hypothesis_transfer import Level, adapt_extractors, better_means, first_means, nearest_means, part
from galafed.messages import Replies
from galafed.model import Model
from galafed.tasks import train
from galafed.training import Training
from galafed.work import Readout

if TYPE_CHECKING:
    from galafed.federation import Federation


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How long sources train before they send their model once, and how the target uses it."""

    source_epochs: int = 30
    """Passes of each source over its own images, all in the first round."""
    smoothing: float = 0.1
    """Label smoothing in the training of the sources."""
    pseudo_weight: float = 0.1
    """β: weight of the pseudo-labels beside the information loss; 0.3 for photographs."""
    means_of: Level = "hidden"
    """Pseudo-labels are by class means of what enters the predictor's last layer, or of the extractor's features."""

    def __post_init__(self) -> None:
        at_least("source_epochs", self.source_epochs, 1)
        fraction("smoothing", self.smoothing)
        at_least("pseudo_weight", self.pseudo_weight, 0)


def recommended_for(name: str) -> dict[str, dict[str, Any]]:
    """SHOT's published hyper-parameters, for the settings of the algorithm of this name."""
    common = {"training.lr": 0.01, "training.batch_size": 64, "training.weight_decay": 1e-3}
    inverse = {"training.schedule": "inverse", "training.decay": 0.75, "training.mixup": 0.0}
    photographs = {"training.extractor_rate": 0.1, f"{name}.source_epochs": 100, f"{name}.pseudo_weight": 0.3}
    return {
        "digits": {"rounds": 31, **common, **inverse},
        "mini": {"rounds": 16},
        "office": {"rounds": 16, **common, **inverse, **photographs},
    }


def train_alone(fed: Federation, model: Model, training: Training, my: Settings, *, hold: str | None = None) -> Replies:
    """Every source trains by itself, epoch by epoch with a falling learning rate, and sends its model at the end."""
    members: Sequence[str] = fed.sources
    replies = Replies({})
    for epoch in range(my.source_epochs):
        last = epoch == my.source_epochs - 1
        arguments = training.sgd(epoch, my.source_epochs) | {"epochs": 1, "mixup": training.mixup, "repeat": epoch}
        sent = ("extractor", "predictor") if last else ()
        task = train(smoothing=my.smoothing, send=sent, hold=hold if last else None, **arguments)
        replies = fed.ask(members, task, {} if epoch else model)
        members = replies.names
    return replies


def adapt(
    fed: Federation, model: Model, models: Sequence[str], my: Settings, sgd: Mapping[str, Any]
) -> tuple[Model, Replies]:
    """One epoch at the target, which holds the models already: label all images by class means, then move each G."""
    for label in (first_means, better_means, nearest_means):
        fed.ask(fed.target, label(models=list(models), of=my.means_of), model)
    hold = f"t{fed.round + 1}"
    task = adapt_extractors(models=list(models), pseudo_weight=my.pseudo_weight, hold=hold, **sgd)
    moved = fed.ask(fed.target, task, model)
    parts = dict(model.parts)
    for model_name in models:
        G, F, seen = (part(kind, model_name) for kind in ("extractor", "predictor", "statistics"))
        parts[G] = moved[G][fed.target]
        parts[F] = parts[F] | moved[seen][fed.target]
    return Model(parts, tag=hold), moved


@algorithms.register("shot")
class Shot(Algorithm[Settings]):
    """Source hypothesis transfer: the first round trains the sources, every further one adapts their models."""

    kind = "federated"
    paper = "Liang et al., Do We Really Need to Access the Source Data? Source Hypothesis Transfer for UDA, ICML 2020"
    sends = "source: the first model, and its own once; target: all (G_n, F_n) once, then every G_n a round"
    Settings = Settings
    recommended: ClassVar[Mapping[str, Mapping[str, Any]]] = recommended_for("shot")

    def readout(self, sources: Sequence[str]) -> Readout:
        return Readout(tuple((f"extractor:{n}", f"predictor:{n}") for n in sources), "mean")

    def round(self, fed: Federation, model: Model) -> Outcome:
        if fed.round == 0:
            local = train_alone(fed, model, self.training, self.settings)
            parts = {f"{part}:{n}": local[part][n] for n in local.names for part in ("extractor", "predictor")}
            model, done = Model(parts, tag="t1"), local
        else:
            models = [part.partition(":")[2] for part in model.parts if part.startswith("extractor:")]
            sgd = self.training.sgd(fed.round - 1, max(self.rounds - 1, 1))
            model, done = adapt(fed, model, models, self.settings, sgd)
        return Outcome(model=model, loss=done.mean("loss"))
