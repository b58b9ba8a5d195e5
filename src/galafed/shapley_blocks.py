"""The exact Shapley value of the vote v(S) = max_c Σ_{i in S, k_i = c} m_i, without listing all coalitions.

The sources that vote for one class form a block, and v is the largest of independent block sums. Let every source join
with probability q on its own. Owen's multilinear extension says

    φ_i = ∫₀¹ E_q[ v(S+i) - v(S) ] dq,

whose integrand is a polynomial of degree |A| - 1 in q, so that ⌈|A|/2⌉ Gauss-Legendre nodes are exact. With M the
largest sum of the other blocks and P(M ≤ u) the product of their distribution functions,

    E_q[ v(S+i) - v(S) ] = Σ_{T ⊆ block - i} P_q(T) ∫_{s(T)}^{s(T)+m_i} P_q(M ≤ u) du.

As every m is between the gate and 1, a T of at least (size of the largest other block) / gate members beats M for
certain and adds m_i, and a subset of another block of at least (size of the own block) / gate members is above all u.
Neither is listed. Images with the same sizes of blocks are worked on together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, combinations

from galafed.lazy import numpy, torch

LARGEST_CHUNK = 2**21
"""Numbers in the largest tensor that is made at once."""


def by_blocks(m: torch.Tensor, vote: torch.Tensor, gate: float) -> torch.Tensor:
    """Σ over images of φ [N], for m [n, N] that is 0 for a source that is not sure, and above the gate for others."""
    sizes, order = _blocks(m, vote)
    shapes, member = torch.unique(sizes, dim=0, return_inverse=True)
    focus = m.new_zeros(m.shape[1])
    for number, shape in enumerate(shapes.tolist()):
        images = (member == number).nonzero()[:, 0]
        blocks = _block_sizes(shape)
        places = order[images, : sum(blocks)]
        value = shapley_of_shape(m[images].gather(1, places), blocks, gate)
        focus.scatter_add_(0, places.flatten(), value.flatten())
    return focus


def _blocks(m: torch.Tensor, vote: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The size of each source's block and the sources themselves, both [n, N] and with the largest block first."""
    sure = m > 0
    same = (vote[:, :, None] == vote[:, None, :]) & sure[:, :, None] & sure[:, None, :]
    size = same.sum(dim=2)  # [n, N]; 0 for a source that is not sure
    key = size * (int(vote.max()) + 1) + vote
    order = torch.where(sure, key, -1).argsort(dim=1, descending=True, stable=True)
    return size.gather(1, order), order


def _block_sizes(shape: Sequence[int]) -> tuple[int, ...]:
    """(3, 3, 3, 2, 2, 0) -> (3, 2): the size of a block stands at each of its members."""
    blocks, place = [], 0
    while place < len(shape) and shape[place]:
        blocks.append(shape[place])
        place += shape[place]
    return tuple(blocks)


def shapley_of_shape(m: torch.Tensor, blocks: tuple[int, ...], gate: float) -> torch.Tensor:
    """φ [n, a] of images whose a sure sources lie block after block, of these sizes, in m [n, a]."""
    nodes, weights = gauss_legendre(math.ceil(sum(blocks) / 2))
    q, weight = m.new_tensor(nodes), m.new_tensor(weights)  # [Q]
    ends = list(accumulate(blocks))
    columns = [slice(end - size, end) for end, size in zip(ends, blocks, strict=True)]
    result = torch.empty_like(m)
    for own, size in enumerate(blocks):
        others = [other for other in range(len(blocks)) if other != own]
        widest = max(blocks[other] for other in others)
        mine = subsets_of_the_rest(size, _below(widest, gate))
        listed = [subsets(blocks[other], _below(size, gate)) for other in others]
        largest = len(q) * max(size * mine.shape[1], sum(map(len, listed)))
        for part, into in zip(*(torch.split(t, max(1, LARGEST_CHUNK // largest)) for t in (m, result)), strict=True):
            steps = Distribution([part[:, columns[o]] for o in others], listed, q)
            into[:, columns[own]] = _of_block(part[:, columns[own]], mine, steps, q, weight)
    return result


def _of_block(
    m: torch.Tensor, rest: torch.Tensor, others: Distribution, q: torch.Tensor, weight: torch.Tensor
) -> torch.Tensor:
    """φ [n, b] of the members of one block with m [n, b]; `rest` [b, T, b] lists subsets T of each one's companions."""
    rest = rest.to(m)
    start = torch.einsum("nb,itb->nit", m, rest)  # s(T)
    both = torch.cat([start, start + m[..., None]], dim=2).flatten(1)
    below = others.integral(both).view(len(m), len(q), m.shape[1], -1)  # [n, Q, b, 2T]
    count = rest.shape[1]
    gain = below[..., count:] - below[..., :count]
    chance = probabilities(rest[0].sum(dim=1), m.shape[1] - 1, q)  # [Q, T]
    listed = torch.einsum("nqit,qt->nqi", gain, chance)
    certain = (1 - chance.sum(dim=1))[:, None] * m[:, None, :]
    return torch.einsum("nqi,q->ni", listed + certain, weight)


class Distribution:
    """The distribution of M, the largest of several independent block sums, as steps: P_q(M ≤ u) for u ≥ 0."""

    def __init__(self, blocks: Sequence[torch.Tensor], listed: Sequence[torch.Tensor], q: torch.Tensor) -> None:
        """`blocks` hold the m [n, b] of each block, `listed` the subsets [R, b] of each that may matter."""
        sums = [m @ subset.to(m).T for m, subset in zip(blocks, listed, strict=True)]
        self._at = torch.cat(sums, dim=1).sort(dim=1).values  # [n, R]
        below = torch.ones(len(self._at), len(q), self._at.shape[1], dtype=q.dtype, device=q.device)
        for own, subset, m in zip(sums, listed, blocks, strict=True):
            ascending, order = own.sort(dim=1)
            chance = probabilities(subset.to(q).sum(dim=1), m.shape[1], q)  # [Q, R of this block]
            reached = chance[:, order].transpose(0, 1).cumsum(dim=2)  # [n, Q, R of this block]
            index = torch.searchsorted(ascending, self._at, right=True) - 1
            below *= _take(reached, index)
        self._below = below  # P(M ≤ u) from one step to the next, [n, Q, R]
        width = self._at.diff(dim=1)[:, None, :]
        area = (below[..., :-1] * width).cumsum(dim=2)
        self._area = torch.nn.functional.pad(area, (1, 0))

    def integral(self, u: torch.Tensor) -> torch.Tensor:
        """∫₀^u P_q(M ≤ t) dt for u [n, K]: [n, Q, K]."""
        index = torch.searchsorted(self._at, u.contiguous(), right=True) - 1
        beyond = (u - self._at.gather(1, index))[:, None, :]
        return _take(self._area, index) + _take(self._below, index) * beyond


def _take(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """values [n, Q, R] at index [n, K], the same for every q: [n, Q, K]."""
    return values.gather(2, index[:, None, :].expand(-1, values.shape[1], -1))


def probabilities(size: torch.Tensor, players: int, q: torch.Tensor) -> torch.Tensor:
    """q^s (1-q)^(b-s): how likely exactly these s of b players join, for sizes [T]: [Q, T]."""
    return q[:, None] ** size * (1 - q[:, None]) ** (players - size)


def _below(players: int, gate: float) -> int:
    """The largest s for which a sum of s numbers above the gate may be below one of so many numbers up to 1."""
    return math.ceil(players / gate) - 1


@lru_cache(maxsize=256)
def subsets(players: int, most: int) -> torch.Tensor:
    """Every subset of so many players with at most so many members, as rows of 0 and 1: [R, b]."""
    chosen = [c for size in range(min(players, most) + 1) for c in combinations(range(players), size)]
    rows = torch.zeros(len(chosen), players, dtype=torch.int8)
    for row, members in enumerate(chosen):
        rows[row, list(members)] = 1
    return rows


@lru_cache(maxsize=256)
def subsets_of_the_rest(players: int, most: int) -> torch.Tensor:
    """For each player the subsets of the others: [b, R, b]."""
    rest = subsets(players - 1, most)
    rows = torch.zeros(players, len(rest), players, dtype=torch.int8)
    for player in range(players):
        rows[player, :, [other for other in range(players) if other != player]] = rest
    return rows


@lru_cache(maxsize=64)
def gauss_legendre(count: int) -> tuple[list[float], list[float]]:
    """Nodes and weights on [0, 1], exact for polynomials up to degree 2 · count - 1."""
    nodes, weights = numpy.polynomial.legendre.leggauss(count)
    return ((nodes + 1) / 2).tolist(), (weights / 2).tolist()
