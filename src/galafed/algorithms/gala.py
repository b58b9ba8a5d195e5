"""GALA: relevance-weighted consensus and inter-group discrepancy (Algorithm 1 of the paper).

Scaling Unsupervised Multi-Source Federated Domain Adaptation through Group-Wise Discrepancy Minimization, ICML 2026.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from galafed.algorithms.base import Algorithm, Outcome, algorithms
from galafed.bounds import positive
from galafed.groups import random_halves
from galafed.model import Model
from galafed.relevance import Rule, relevance, similarity, similarity_by_class
from galafed.tasks import align, centroids, hold, train, tune

if TYPE_CHECKING:
    from galafed.federation import Federation


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The paper's choices, and a switch for each that an ablation turns or that the paper leaves open."""

    relevance: Rule = "mdmgb+"
    """How similarity becomes relevance: the softmax of Eq. 8, the plain share of MDMGB, or none."""
    tau: float = 1.0
    """Sharpness of the relevance softmax (Eq. 8); larger is sharper."""
    igd: bool = True
    """Align by inter-group discrepancy; off, the target only refreshes BatchNorm statistics."""
    igd_scale: float = 1.0
    """Factor on the discrepancy (Eq. 4)."""
    igd_dropout: bool = True
    """Dropout in the heads during the alignment, with a mask for each head."""
    group_predictors: Literal["parameters", "outputs"] = "parameters"
    """What Eq. 5 averages: the heads' parameters at the server, or all heads' outputs at the target."""
    head_statistics: Literal["source", "target"] = "target"
    """Whose BatchNorm statistics F_{t+1} carries: the sources', or those seen during the alignment."""
    balanced: bool = True
    """Halve the sources at random; otherwise toss a coin for each (no group stays empty)."""

    def __post_init__(self) -> None:
        positive("tau", self.tau)
        positive("igd_scale", self.igd_scale)


@algorithms.register("gala")
class Gala(Algorithm[Settings]):
    """Relevance-weighted consensus and inter-group discrepancy."""

    kind = "federated"
    paper = (
        "Scaling Unsupervised Multi-Source Federated Domain Adaptation through Group-Wise Discrepancy Minimization, "
        "ICML 2026"
    )
    sends = "source: G twice, F twice, centroids; target: G twice, two group predictors; no image, no label"
    Settings = Settings
    needs_two_sources = True

    def start(self, fed: Federation, model: Model) -> Model:
        """The target receives the first model once; from then on it forms h_{t+1} itself and holds it."""
        first = Model(model.parts, tag="h0")
        fed.ask(fed.target, hold(), first)
        return first

    def round(self, fed: Federation, model: Model) -> Outcome:
        my, mean = self.settings, self.training.mean
        sgd, supervised = self.sgd(fed.round), self.supervised(fed.round)

        r = fed.ask(fed.everyone, centroids(), model)["centroids"]  # r_n^c, r_T^c
        S = similarity(r, target=fed.target)  # Eq. 7

        def weights(members: Iterable[str]) -> dict[str, float]:
            return relevance({n: S[n] for n in members}, rule=my.relevance, tau=my.tau)  # Eq. 8, in a group Eq. 9

        local = fed.ask(S, train(**supervised), model)  # (G_n, F_n): G_n is sent, F_n stays at the client
        G = mean(local["extractor"], weights(local.names))  # G' = Σ w_n G_n

        tuned = fed.ask(local.names, tune(**supervised), {"extractor": G})  # F_n, on frozen G'
        F, w = tuned["predictor"], weights(tuned.names)

        halves = random_halves(tuned.names, fed.rng("groups"), balanced=my.balanced)  # G_1, G_2
        if my.group_predictors == "parameters":
            heads = {str(k): mean({n: F[n] for n in half}, weights(half)) for k, half in enumerate(halves, 1)}  # Eq. 5
            share = {str(k): sum(w[n] for n in half) for k, half in enumerate(halves, 1)}  # w_Gk
            groups = [{head: 1.0} for head in heads]
        else:
            heads, share, groups = F, w, [weights(half) for half in halves]

        tag = f"h{fed.round + 1}"
        target_statistics = my.head_statistics == "target"
        aligned = fed.ask(
            fed.target,
            align(
                groups=groups if my.igd else [share],
                scale=my.igd_scale,
                dropout=my.igd_dropout,
                hold=tag if target_statistics else None,
                share=share,
                variance=self.training.bn_variance,
                **sgd,
            ),
            {"extractor": G} | {f"predictor:{head}": F_k for head, F_k in heads.items()},
        )
        G = aligned["extractor"][fed.target]  # G'' by L_IGD, Eq. 4
        if target_statistics:
            heads = {head: F_k | aligned[f"statistics:{head}"][fed.target] for head, F_k in heads.items()}

        return Outcome(
            model=Model({"extractor": G, "predictor": mean(heads, share)}, tag=tag),  # F = Σ w_Gk F_Gk = Σ w_n F_n
            loss=local.mean("loss"),
            discrepancy=aligned.mean("loss") / my.igd_scale if my.igd and len(halves) == 2 else None,
            relevance=w,
            notes={
                "similarity": S,
                "class_similarity": similarity_by_class(r, target=fed.target),
                "groups": [list(half) for half in halves],
                "tuned_loss": tuned.mean("loss"),
            },
        )
