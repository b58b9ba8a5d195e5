"""How relevant each source is to the target: soft centroids, their similarity, MDMGB and MDMGB+ (Eq. 7 to 9)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from galafed.lazy import torch
from galafed.model import State, normalise

Rule = Literal["uniform", "mdmgb", "mdmgb+"]

RARE = 1e-3
"""A class whose soft share of a domain is below this has no meaningful centroid there."""

TOLD = 64
"""With more classes a record of every class in every round would outgrow the rest of the run."""


def soft_sums(features: torch.Tensor, logits: torch.Tensor) -> dict[str, torch.Tensor]:
    """Σ_x δ_c(x) G(x) [C, d] and Σ_x δ_c(x) [C], with δ = softmax F(G(x)), for features [n, d], logits [n, C]."""
    delta = logits.softmax(dim=-1)
    return {"weighted": delta.T @ features, "mass": delta.double().sum(dim=0)}


def centroids_from(sums: Mapping[str, torch.Tensor], dtype: torch.dtype) -> State:
    """r^c = Σ_x δ_c(x) G(x) / Σ_x δ_c(x) [C, d], and each class's share of the domain [C]."""
    mass = sums["mass"]
    means = sums["weighted"] / mass.clamp_min(torch.finfo(torch.float32).tiny)[:, None]
    return {"means": means.to(dtype), "share": (mass / mass.sum()).to(dtype)}


def similarity(centroids: Mapping[str, State], *, target: str) -> dict[str, float]:
    """S_n (Eq. 7) where all centroids, by name, are those of one model."""
    return similarity_of_pairs({n: (centroids[target], r) for n, r in centroids.items() if n != target})


def similarity_of_pairs(pairs: Mapping[str, tuple[State, State]]) -> dict[str, float]:
    """S_n = Σ_c ( cos(r_T^c, r_n^c) + 1 ) (Eq. 7), from the target's and the source's centroids for each source.

    A class that is all but absent from the target or from a source adds 0 for every source, so that nobody gains or
    loses by it. MDMGB+ does not depend on the "+1"; MDMGB does, and takes it inside the sum.
    """
    present = torch.stack([state["share"] >= RARE for pair in pairs.values() for state in pair]).all(dim=0)
    sources = sorted(pairs)
    r_target, r_source = (torch.stack([pairs[n][k]["means"] for n in sources]).double() for k in (0, 1))
    cosine = torch.nn.functional.cosine_similarity(r_target, r_source, dim=-1)  # [N, C]
    sums: list[float] = ((cosine.clamp(-1, 1) + 1) * present).sum(dim=-1).tolist()
    return dict(zip(sources, sums, strict=True))


def similarity_by_class(centroids: Mapping[str, State], *, target: str) -> dict[str, list[float]]:
    """cos(r_T^c, r_n^c) for every class of every source, to three decimals; of more than `TOLD` classes nothing."""
    reference = centroids[target]["means"].double()
    if len(reference) > TOLD:
        return {}
    cosines = {
        n: torch.nn.functional.cosine_similarity(reference, r["means"].double(), dim=-1).clamp(-1, 1)
        for n, r in centroids.items()
        if n != target
    }
    return {n: [round(value, 3) for value in cosines[n].tolist()] for n in sorted(cosines)}


def relevance(similarities: Mapping[str, float], *, rule: Rule = "mdmgb+", tau: float = 1.0) -> dict[str, float]:
    """w_n, which sum to 1: softmax(τ S) for MDMGB+ (Eq. 8), S / Σ S for MDMGB, 1/N for uniform."""
    if rule == "uniform" or not any(similarities.values()):
        return normalise(dict.fromkeys(similarities, 1.0))
    if rule == "mdmgb":
        return normalise(similarities)
    largest = max(similarities.values())
    return normalise({source: math.exp(tau * (s - largest)) for source, s in similarities.items()})
