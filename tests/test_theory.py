"""What the paper proves about IGD, relevance and the schedule, checked by counting every case."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from galafed.discrepancy import full, group_mean, inter_domain, inter_group, normalised_full
from galafed.groups import random_halves
from galafed.model import State, renormalise, weighted_mean
from galafed.training import Training

Heads = dict[str, torch.Tensor]


def softmax_heads(count: int, seed: int, *, spread: float = 1.0) -> Heads:
    """Heads that share a trend and differ at random: probabilities [32 images, 4 classes] each."""
    rng = torch.Generator().manual_seed(seed)
    trend = torch.randn(32, 4, generator=rng, dtype=torch.float64)
    noise = torch.randn(count, 32, 4, generator=rng, dtype=torch.float64)
    bias = torch.randn(count, 1, 4, generator=rng, dtype=torch.float64)
    logits = trend + spread * (bias + noise)
    return {f"h{n:02}": p for n, p in enumerate(logits.softmax(dim=-1))}


def balanced_splits(names: list[str]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Every ordered split into two equal groups."""
    for first in combinations(names, len(names) // 2):
        yield first, tuple(name for name in names if name not in first)


def uniform(group: tuple[str, ...]) -> dict[str, float]:
    return dict.fromkeys(group, 1 / len(group))


def population_variance(values: list[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).var(correction=0))


# Bounds


@settings(max_examples=40)
@given(
    count=st.integers(2, 7),
    seed=st.integers(0, 10_000),
    spread=st.floats(0.01, 10),
    weights=st.lists(st.floats(0.001, 1), min_size=7, max_size=7),
)
def test_igd_is_at_most_the_weighted_mean_of_idd_and_that_at_most_the_largest(
    count: int, seed: int, spread: float, weights: list[float]
) -> None:
    heads = softmax_heads(count, seed, spread=spread)
    first, second = random_halves(heads, torch.Generator().manual_seed(seed), balanced=False)
    relevance = dict(zip(heads, weights, strict=False))
    w1, w2 = renormalise(relevance, first), renormalise(relevance, second)
    pairs = {(i, j): inter_domain(heads[i], heads[j]).item() for i in first for j in second}
    igd = inter_group(heads, [w1, w2]).item()
    mean = sum(w1[i] * w2[j] * idd for (i, j), idd in pairs.items())
    assert igd <= mean + 1e-12
    assert mean <= max(pairs.values()) + 1e-12


@pytest.mark.parametrize("M", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_igd_on_average_over_all_balanced_splits_is_at_most_the_normalised_full_discrepancy(M: int, seed: int) -> None:
    heads = softmax_heads(2 * M, seed)
    splits = list(balanced_splits(list(heads)))
    igd = sum(inter_group(heads, [uniform(a), uniform(b)]).item() for a, b in splits) / len(splits)
    limit = normalised_full(list(heads.values())).item()
    assert igd <= limit + 1e-12
    if M == 1:
        assert igd == pytest.approx(limit)
    else:
        assert igd < 0.95 * limit  # averaging before the norm does lose something


@pytest.mark.parametrize("M", [1, 2, 3, 4])
def test_pairwise_mean_over_all_balanced_splits_is_the_normalised_full_discrepancy(M: int) -> None:
    heads = softmax_heads(2 * M, 7)
    splits = list(balanced_splits(list(heads)))
    total = sum(inter_domain(heads[i], heads[j]).item() for a, b in splits for i in a for j in b)
    assert total / len(splits) / M**2 == pytest.approx(normalised_full(list(heads.values())).item())


def test_idd_of_a_random_pair_estimates_the_normalised_full_discrepancy_without_bias() -> None:
    heads = list(softmax_heads(5, 3).values())
    pairs = [inter_domain(p, q).item() for p, q in combinations(heads, 2)]
    assert sum(pairs) / len(pairs) == pytest.approx(normalised_full(heads).item())
    assert sum(pairs) == pytest.approx(full(heads).item())


# Variance


def signed(p: torch.Tensor, q: torch.Tensor) -> float:
    """E_x [2 (h_a(x) - h_b(x))] for two classes: the discrepancy without its absolute value."""
    return float(2 * (p - q)[:, 0].mean())


@pytest.mark.parametrize("M", [2, 3, 4])
def test_signed_igd_varies_exactly_one_mth_as_much_as_signed_idd(M: int) -> None:
    h = torch.rand(2 * M, 16, 1, generator=torch.Generator().manual_seed(M), dtype=torch.float64)
    heads = {f"h{n}": torch.cat([p, 1 - p], dim=1) for n, p in enumerate(h)}
    sigma2 = population_variance([float(p[:, 0].mean()) for p in heads.values()])
    idd = population_variance([signed(p, q) for p, q in permutations(heads.values(), 2)])
    igd = population_variance(
        [signed(group_mean(heads, uniform(a)), group_mean(heads, uniform(b))) for a, b in balanced_splits(list(heads))]
    )
    assert idd == pytest.approx(16 * M * sigma2 / (2 * M - 1), rel=1e-10)
    assert igd == pytest.approx(16 * sigma2 / (2 * M - 1), rel=1e-10)
    assert igd / idd == pytest.approx(1 / M, rel=1e-10)


@pytest.mark.parametrize("M", [3, 4])
def test_actual_igd_varies_about_one_mth_as_much_as_actual_idd(M: int) -> None:
    ratios = []
    for seed in range(12):
        heads = softmax_heads(2 * M, seed)
        idd = population_variance([inter_domain(p, q).item() for p, q in combinations(heads.values(), 2)])
        igd = population_variance(
            [inter_group(heads, [uniform(a), uniform(b)]).item() for a, b in balanced_splits(list(heads))]
        )
        ratios.append(igd / idd)
    assert 0.4 / M < sum(ratios) / len(ratios) < 1.6 / M


# Splits


@pytest.mark.parametrize("M", [1, 2, 3, 4, 5])
def test_two_heads_are_separated_with_probability_m_over_2m_minus_1(M: int) -> None:
    names = [f"h{n}" for n in range(2 * M)]
    splits = list(balanced_splits(names))
    apart = sum((names[0] in a) != (names[1] in a) for a, _ in splits)
    assert apart * (2 * M - 1) == M * len(splits)


def test_random_halves_separate_two_names_that_often() -> None:
    M, draws = 3, 3000
    names = [f"h{n}" for n in range(2 * M)]
    rng = torch.Generator().manual_seed(5)
    firsts = [random_halves(names, rng)[0] for _ in range(draws)]
    for i, j in (("h0", "h1"), ("h2", "h5"), ("h0", "h5")):
        apart = sum((i in first) != (j in first) for first in firsts) / draws
        assert apart == pytest.approx(M / (2 * M - 1), abs=0.04)  # four standard deviations and a half


@settings(max_examples=40)
@given(
    weights=st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=9),
    seed=st.integers(0, 10_000),
    balanced=st.booleans(),
)
def test_merged_group_predictors_are_the_relevance_weighted_mean_whatever_the_split(
    weights: list[float], seed: int, balanced: bool
) -> None:
    rng = torch.Generator().manual_seed(seed)
    states: dict[str, State] = {
        f"c{n}": {
            "weight": torch.randn(3, 5, generator=rng, dtype=torch.float64),
            "running_mean": torch.randn(5, generator=rng, dtype=torch.float64),
        }
        for n in range(len(weights))
    }
    w = renormalise(dict(zip(states, weights, strict=True)), states)
    halves = random_halves(states, rng, balanced=balanced)
    groups = {str(k): weighted_mean({n: states[n] for n in g}, renormalise(w, g)) for k, g in enumerate(halves)}
    merged = weighted_mean(groups, {str(k): sum(w[n] for n in g) for k, g in enumerate(halves)})
    expected = weighted_mean(states, w)
    for name in expected:
        torch.testing.assert_close(merged[name], expected[name], rtol=1e-12, atol=1e-12)


# Schedule


@pytest.mark.parametrize(("number", "factor"), [(0, 1.0), (250, 0.2608), (500, 0.1656)])
@pytest.mark.parametrize("lr", [1.0, 0.005])
def test_learning_rate_falls_as_the_paper_says(number: int, factor: float, lr: float) -> None:
    training = Training(lr=lr)
    assert training.rate(number, 500) == pytest.approx(lr * factor, rel=5e-4)
    assert training.sgd(number, 500)["lr"] == training.rate(number, 500)


def test_learning_rate_of_the_other_schedules() -> None:
    office = Training(lr=0.01, schedule="exponential", decay=0.9)
    assert office.rate(100, 500) == pytest.approx(0.01 * 2.656e-5, rel=1e-3)
    assert Training(lr=0.01, schedule="constant").rate(77, 100) == 0.01
