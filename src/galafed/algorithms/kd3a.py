"""KD3A: source models vote on the target's labels, and weigh as much as they add to the agreement.

Feng, You, Chen, Zhang, Zhu, Wu, Wu, Chen: KD3A: Unsupervised Multi-Source Decentralized Domain Adaptation via Knowledge
Distillation, ICML 2021.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from galafed.algorithms.base import Algorithm, Outcome, algorithms
from galafed.bounds import at_least, between, fraction
from galafed.consensus_focus import Form
from galafed.distillation import consensus, distill
from galafed.lazy import torch
from galafed.model import Model, normalise, statistics
from galafed.runs.seeding import seed_for
from galafed.tasks import train

if TYPE_CHECKING:
    from galafed.federation import Federation


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The gate of the knowledge vote, and how the consensus focus becomes weights."""

    gate_start: float = 0.9
    gate_end: float = 0.95
    """Confidence above which a source's opinion counts, from the first round to the last."""
    mixup: float = 2.0
    """Mix target images and their consensus labels with a share drawn from Beta(mixup, mixup); 0 mixes none."""
    inertia: float = 0.9
    """Share of the old weights in the new ones, from the second round on."""
    focus: Form = "auto"
    """How the Shapley values are computed; auto picks the fastest exact form, and samples beyond 20 sources."""
    statistics: Literal["average", "target"] = "target"
    """BatchNorm statistics of the consensus extractor: of all models, or those the target's model saw."""

    def __post_init__(self) -> None:
        between("gate_start", self.gate_start, 0, 1)
        between("gate_end", self.gate_end, 0, 1)
        at_least("mixup", self.mixup, 0)
        fraction("inertia", self.inertia)


@algorithms.register("kd3a")
class Kd3a(Algorithm[Settings]):
    """Knowledge vote, consensus focus, and a weighted mean of extractors; predictors are never averaged."""

    kind = "federated"
    paper = (
        "Feng et al., KD3A: Unsupervised Multi-Source Decentralized Domain Adaptation via Knowledge Distillation, "
        "ICML 2021"
    )
    sends = "source: G twice, F_n once; target: every (G_n, F_n), G twice, F once; no image, no label"
    Settings = Settings
    fewest_sources = 2
    recommended: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "digits": {"rounds": 100, "training.lr": 0.05, "training.schedule": "cosine", "training.decay": 0.02},
        "office": {
            "rounds": 100,
            "training.lr": 0.005,
            "training.schedule": "cosine",
            "training.decay": 0.02,
            "training.batch_size": 32,
            "training.mixup": 0.0,
        },
    }

    def start(self, fed: Federation, model: Model) -> Model:
        """All extractors start alike, every predictor from numbers of its own."""
        heads = {f"predictor:{n}": fed.fresh(f"predictor:{n}") for n in fed.sources}
        return Model({**model.parts, **heads})

    def round(self, fed: Federation, model: Model) -> Outcome:
        my, mean, sgd = self.settings, self.training.mean, self.sgd(fed.round)
        gate = my.gate_start + (my.gate_end - my.gate_start) * fed.round / self.rounds
        G = {"extractor": model.extractor}

        # Everyone holds its own predictor since it trained it; the tag says so, and it is not sent again.
        F = {n: model.parts[f"predictor:{n}"] for n in fed.sources} | {fed.target: model.predictor}
        own = {n: Model({"predictor": F_n}, tag=f"f{fed.round}") for n, F_n in F.items()}
        both, hold = ("extractor", "predictor"), f"f{fed.round + 1}"

        local = fed.ask(fed.sources, train(send=both, hold=hold, **self.supervised(fed.round)), G, own=own)

        known = {f"{part}:{n}": local[part][n] for n in local.names for part in both}
        seed = seed_for(fed.seed, "round", fed.round, "focus")
        vote = consensus(
            sources=list(local.names), gate=gate, form=my.focus, seed=seed, batch_size=self.training.batch_size
        )
        found = fed.ask(fed.target, vote, known)["focus"][fed.target]  # CF_n, and the share of images that are kept
        w = self._weights(fed, model, dict(zip(local.names, found["focus"].tolist(), strict=True)), found["kept"])

        taught = fed.ask(fed.target, distill(mixup=my.mixup, hold=hold, **sgd), G, own=own)
        G_target = taught["extractor"][fed.target]
        consensus_G = mean({**local["extractor"], fed.target: G_target}, w)  # classifiers stay their owners'
        if my.statistics == "target":
            consensus_G |= statistics(G_target)
        heads = {f"predictor:{n}": F for n, F in local["predictor"].items()}
        return Outcome(
            model=Model(
                {
                    **model.parts,
                    **heads,
                    "extractor": consensus_G,
                    "predictor": taught["predictor"][fed.target],
                    "weights": {n: torch.tensor(value, dtype=torch.float64) for n, value in w.items()},
                }
            ),
            loss=local.mean("loss"),
            relevance=normalise({n: w[n] for n in local.names}),
            notes={
                "gate": gate,
                "kept": float(found["kept"]),
                "target_weight": w[fed.target],
                "taught_loss": taught.mean("loss"),
            },
        )

    def _weights(
        self, fed: Federation, model: Model, focus: Mapping[str, float], kept: torch.Tensor
    ) -> dict[str, float]:
        """w_T = α / (N+1), w_n = (1 - w_T) CF_n / Σ CF, and from the second round on 0.9 of the old in the new."""
        mine = float(kept) / (len(focus) + 1)
        shares = normalise(focus if any(focus.values()) else dict.fromkeys(focus, 1.0))
        new = {n: (1 - mine) * share for n, share in shares.items()} | {fed.target: mine}
        old = model.parts.get("weights")
        if old is None:
            return new
        inertia = self.settings.inertia
        return normalise({n: inertia * float(old.get(n, new[n])) + (1 - inertia) * new[n] for n in new})
