"""KD3A's knowledge vote and consensus focus: what many source models agree on, and what each adds to the agreement.

For n images and N sources, `confidence` [n, N] holds each source's largest probability m_i and `vote` [n, N] the class
k_i it belongs to. With A = {i: m_i > gate}, a coalition S of sources is worth, on one image,

    v(S) = max_c Σ_{i in S∩A, k_i = c} m_i,

and the consensus focus CF_i is the sum over images of the Shapley value of source i in that game. All forms below are
exact but `by_sampling`, which is unbiased. None of them lists orders, and none has a loop over images.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from galafed.lazy import torch
from galafed.shapley_blocks import by_blocks

Form = Literal["auto", "subsets", "blocks", "sampled"]

SUBSETS_UP_TO = 10
"""Sources up to which listing all coalitions is the fastest exact form (benchmarks/kd3a.py)."""
BLOCKS_UP_TO = 20
"""Sources up to which the block form takes seconds whatever the votes; its worst case grows as 2^(2N/3)."""
LOWEST_GATE_FOR_BLOCKS = 0.5
"""Below, few subsets can be left out of the block form's lists."""

LARGEST_CHUNK = 2**22
"""Numbers in the largest tensor that is made at once."""


@dataclass(frozen=True)
class Consensus:
    """What the sources agree on: a class for each image [n], and whether anyone was sure enough of one [n]."""

    label: torch.Tensor
    kept: torch.Tensor


def knowledge_vote(confidence: torch.Tensor, vote: torch.Tensor, *, gate: float, classes: int) -> Consensus:
    """The class with the largest Σ m_i over sources above the gate; where none is above it, over all, and not kept."""
    sure = confidence > gate
    kept = sure.any(dim=1)
    voting = torch.where(sure | ~kept[:, None], confidence, 0)
    return Consensus(class_totals(voting, vote, classes).argmax(dim=1), kept)


def consensus_focus(
    confidence: torch.Tensor, vote: torch.Tensor, *, gate: float, classes: int, seed: int = 0, form: Form = "auto"
) -> torch.Tensor:
    """CF [N] in float64, in the form asked for."""
    m = confidence.double() * (confidence > gate)
    disputed = (class_totals(m, vote, classes) > 0).sum(dim=1) > 1
    # Where all who are sure name one class, v is additive and each adds its own m_i.
    agreed = m[~disputed].sum(dim=0)
    m, vote = m[disputed], vote[disputed]
    if not len(m):
        return agreed
    if form == "auto":
        form = best_form(m.shape[1], gate)
    if form == "subsets":
        return agreed + by_subsets(m, vote, classes)
    return agreed + (by_blocks(m, vote, gate) if form == "blocks" else by_sampling(m, vote, classes, seed))


def best_form(sources: int, gate: float) -> Form:
    """The fastest exact form, or the sampled one where none is fast."""
    if sources <= SUBSETS_UP_TO:
        return "subsets"
    return "blocks" if sources <= BLOCKS_UP_TO and gate >= LOWEST_GATE_FOR_BLOCKS else "sampled"


def class_totals(weight: torch.Tensor, vote: torch.Tensor, classes: int) -> torch.Tensor:
    """Σ_{i: k_i = c} of the weights [n, N] for each class: [n, C]."""
    return weight.new_zeros(len(weight), classes).scatter_add_(1, vote, weight)


def by_subsets(m: torch.Tensor, vote: torch.Tensor, classes: int) -> torch.Tensor:
    """Σ_{S not containing i} |S|! (N-1-|S|)! / N! (V[S+i] - V[S]) with V[S] = Σ_x v_x(S), summed over images first.

    m [n, N] is 0 for a source that is not sure. Linear in the games, so the weights are applied once for all images.
    """
    sources = m.shape[1]
    number = torch.arange(2**sources, device=m.device)
    member = (number[:, None] >> torch.arange(sources, device=m.device)) & 1  # [2^N, N]
    value = m.new_zeros(2**sources)
    one_hot = torch.nn.functional.one_hot(vote, classes).to(m.dtype) * m[..., None]  # [n, N, C]
    for part in torch.split(one_hot, max(1, LARGEST_CHUNK // (2**sources * classes))):
        totals = torch.einsum("si,nic->snc", member.to(m.dtype), part)
        value += totals.amax(dim=2).sum(dim=1)
    orders = math.factorial(sources)
    share = [math.factorial(s) * math.factorial(sources - 1 - s) / orders for s in range(sources)]
    size = member.sum(dim=1)
    focus = []
    for source in range(sources):
        without = number[member[:, source] == 0]
        weight = m.new_tensor(share)[size[without]]
        focus.append((weight * (value[without | (1 << source)] - value[without])).sum())
    return torch.stack(focus)


def by_sampling(m: torch.Tensor, vote: torch.Tensor, classes: int, seed: int) -> torch.Tensor:
    """Marginal contributions along one random order of the sources for each image, and along its reverse.

    Unbiased, and its sum is exactly Σ_x v_x(all) with every draw; the error falls with the number of images.
    """
    draws = torch.rand(m.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    order = draws.argsort(dim=1).to(m.device)
    return (_along(order, m, vote, classes) + _along(order.flip(1), m, vote, classes)) / 2


def _along(order: torch.Tensor, m: torch.Tensor, vote: torch.Tensor, classes: int) -> torch.Tensor:
    """Σ over images of what each source adds when sources join in the order [n, N] of each image: [N]."""
    total = m.new_zeros(len(m), classes)
    worth, focus = m.new_zeros(len(m)), m.new_zeros(m.shape[1])
    for joining in order.T:
        total.scatter_add_(1, vote.gather(1, joining[:, None]), m.gather(1, joining[:, None]))
        now = total.amax(dim=1)
        focus.scatter_add_(0, joining, now - worth)
        worth = now
    return focus
