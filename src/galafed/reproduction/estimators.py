"""IDD and IGD as estimators: their mean and variance over random pairs and random splits of predictors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import torch
from torch import Tensor

from galafed.groups import random_halves

Choice = tuple[tuple[int, ...], tuple[int, ...]]
"""Two groups of predictors, by number."""


@dataclass(frozen=True)
class Spread:
    """Mean and population variance over choices."""

    mean: float
    variance: float

    @property
    def relative(self) -> float:
        """Variance / mean²: what does not change with the size of a step; 0 where there is nothing to vary."""
        return self.variance / self.mean**2 if self.mean else 0.0

    @staticmethod
    def of(values: Tensor) -> Spread:
        """Of values [choices]."""
        exact = values.double()
        return Spread(float(exact.mean()), float(exact.var(correction=0)))


def pairs(count: int) -> list[Choice]:
    """Every pair of so many predictors: what IDD chooses from."""
    return [((a,), (b,)) for a, b in combinations(range(count), 2)]


def splits(count: int, rng: torch.Generator, at_most: int) -> list[Choice]:
    """Every split into halves, of an odd number into nearly halves; random ones, if there are more than `at_most`."""
    half = count // 2
    if math.comb(count, half) // (1 if count % 2 else 2) > at_most:
        names = [f"{number:04}" for number in range(count)]
        drawn = (random_halves(names, rng) for _ in range(at_most))
        return [(tuple(map(int, first)), tuple(map(int, second))) for first, second in drawn]
    every = (set(first) for first in combinations(range(count), half))
    chosen = [first for first in every if count % 2 or 0 in first]  # of two equal halves, each split once
    return [(tuple(sorted(first)), tuple(n for n in range(count) if n not in first)) for first in chosen]


def weights(choices: Sequence[Choice], count: int) -> Tensor:
    """[choices, count]: 1/|G1| in the first group, -1/|G2| in the second, so that weights @ h = h̄_G1 - h̄_G2."""
    found = torch.zeros(len(choices), count, dtype=torch.float64)
    for row, (first, second) in enumerate(choices):
        found[row, list(first)] = 1 / len(first)
        found[row, list(second)] = -1 / len(second)
    return found


def signed(h: Tensor, choices: Sequence[Choice]) -> Spread:
    """Of E_x[2 (h̄_G1 - h̄_G2)], h [count, points] the first of two classes' probabilities, both orders of each choice.

    The quantity of the paper's appendix; as either order is as likely, its mean is 0.
    """
    values = 2 * (weights(choices, len(h)) @ h.mean(dim=1))
    return Spread.of(torch.cat([values, -values]))


def discrepancy(h: Tensor, choices: Sequence[Choice]) -> Spread:
    """Of E_x[2 |h̄_G1 - h̄_G2|], the loss as it is defined (Eq. 3, 4): the absolute value is inside."""
    return Spread.of(2 * (weights(choices, len(h)) @ h).abs().mean(dim=1))


def uniform_heads(count: int, points: int, rng: torch.Generator) -> Tensor:
    """The paper's first toy: h_i(x) ~ Unif[0, 1], [count, points]."""
    return torch.rand(count, points, generator=rng, dtype=torch.float64)


def own_means(count: int, points: int, rng: torch.Generator, theta: float) -> Tensor:
    """Its second: μ_i ~ Unif[θ, 1-θ], h_i(x) ~ Unif[μ_i-θ, μ_i+θ], [count, points]."""
    middle = theta + (1 - 2 * theta) * torch.rand(count, 1, generator=rng, dtype=torch.float64)
    return middle + theta * (2 * torch.rand(count, points, generator=rng, dtype=torch.float64) - 1)


def toy(half: int, points: int, populations: int, rng: torch.Generator, theta: float | None) -> dict[str, float]:
    """Spreads of IDD and IGD over pairs and splits of 2M heads, averaged over populations of heads.

    The first toy, or with θ the second; σ² is the variance of E_x h_k over heads.
    """
    every, halves = pairs(2 * half), splits(2 * half, rng, at_most=10**4)
    found: dict[str, list[float]] = {}
    for _ in range(populations):
        h = own_means(2 * half, points, rng, theta) if theta else uniform_heads(2 * half, points, rng)
        values = {"sigma2": float(h.mean(dim=1).var(correction=0))}
        for name, choices in (("IDD", every), ("IGD", halves)):
            loss = discrepancy(h, choices)
            values |= {f"signed {name}": signed(h, choices).variance, f"variance {name}": loss.variance}
            values |= {f"mean {name}": loss.mean}
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in found.items()} | {"splits": len(halves)}
