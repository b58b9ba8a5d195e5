"""FACT: each round two random sources, whose predictors are made to agree on the target (inter-domain distance).

Schrod, Lippl, Schäfer, Altenbuchinger: FACT: Federated Adversarial Cross Training, 2023; the system GALA is built on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from galafed.algorithms.base import Algorithm, Outcome, algorithms
from galafed.bounds import positive
from galafed.groups import random_pair
from galafed.model import Model, statistics
from galafed.tasks import align, train, tune
from galafed.work import Readout

if TYPE_CHECKING:
    from galafed.federation import Federation


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The strength of the inter-domain distance and how the two heads are read."""

    idd_scale: float = 1.0
    """Factor on the discrepancy (Eq. 3); the public code, with its second softmax and its mean, corresponds to 1/68."""
    idd_dropout: bool = True
    """Dropout in both heads during the alignment."""
    two_heads: bool = True
    """Test with the more confident of the two heads, as the public code does; otherwise with their mean."""
    train_all: bool = False
    """A control: every source trains and fine-tunes each round and counts alike in G' and F; a pair is compared."""

    def __post_init__(self) -> None:
        positive("idd_scale", self.idd_scale)


@algorithms.register("fact")
class Fact(Algorithm[Settings]):
    """Inter-domain distance of a random pair of sources."""

    kind = "federated"
    paper = "Schrod et al., FACT: Federated Adversarial Cross Training, arXiv 2306.00607, 2023"
    sends = "two sources: G twice, F twice; target: G twice, two predictors; no image, no label"
    Settings = Settings
    needs_two_sources = True

    def readout(self, sources: Sequence[str]) -> Readout:
        if not self.settings.two_heads:
            return Readout()
        return Readout((("extractor", "predictor:1"), ("extractor", "predictor:2")), "confident")

    def round(self, fed: Federation, model: Model) -> Outcome:
        my, mean = self.settings, self.training.mean
        sgd, supervised = self.sgd(fed.round), self.supervised(fed.round)
        trained = fed.sources if my.train_all else random_pair(fed.sources, fed.rng("pair"))

        local = fed.ask(trained, train(**supervised), model)  # (G_n, F_n): F_n stays at the client
        G = mean(local["extractor"], dict.fromkeys(local.names, 1.0))  # G'
        tuned = fed.ask(local.names, tune(**supervised), {"extractor": G})  # F_n, on frozen G'

        pair = random_pair(tuned.names, fed.rng("pair")) if my.train_all else tuned.names
        heads = {str(k): tuned["predictor"][n] for k, n in enumerate(pair, start=1)}
        aligned = fed.ask(
            fed.target,
            align(groups=[{head: 1.0} for head in heads], scale=my.idd_scale, dropout=my.idd_dropout, **sgd),
            {"extractor": G} | {f"predictor:{head}": F for head, F in heads.items()},
        )
        G = aligned["extractor"][fed.target]
        heads = {head: F | aligned[f"statistics:{head}"][fed.target] for head, F in heads.items()}
        F = mean(heads, dict.fromkeys(heads, 0.5))
        if my.train_all:
            F = mean(tuned["predictor"], dict.fromkeys(tuned.names, 1.0)) | statistics(F)

        named = {f"predictor:{head}": state for head, state in heads.items()}
        if len(heads) < 2:  # the other source dropped out: there is no second opinion
            named = dict.fromkeys(("predictor:1", "predictor:2"), F)
        return Outcome(
            model=Model({"extractor": G, "predictor": F}),
            tested=Model({"extractor": G, "predictor": F} | named),
            loss=local.mean("loss"),
            discrepancy=aligned.mean("loss") / my.idd_scale if len(heads) == 2 else None,
            relevance={n: 1 / len(tuned.names) for n in tuned.names},
            notes={"pair": list(pair)},
        )
