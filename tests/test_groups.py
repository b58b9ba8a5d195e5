"""Random groups: never empty, a partition, balanced, fair and repeatable."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from galafed.groups import random_halves, random_pair

NAMES = st.lists(st.text("abcdefg", min_size=1, max_size=4), min_size=2, max_size=9, unique=True)
SEEDS = st.integers(0, 2**62)


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(names=NAMES, seed=SEEDS, balanced=st.booleans())
def test_halves_are_a_partition_into_two_groups_that_are_not_empty(names: list[str], seed: int, balanced: bool) -> None:
    halves = random_halves(names, rng(seed), balanced=balanced)
    assert len(halves) == 2
    assert all(halves)
    assert sorted(halves[0] + halves[1]) == sorted(names)
    assert all(list(half) == sorted(half) for half in halves)


@given(names=NAMES, seed=SEEDS)
def test_balanced_halves_differ_by_at_most_one(names: list[str], seed: int) -> None:
    first, second = random_halves(names, rng(seed))
    assert abs(len(first) - len(second)) == len(names) % 2


@given(names=NAMES, seed=SEEDS, balanced=st.booleans())
def test_halves_depend_on_the_generator_and_not_on_the_order_of_names(
    names: list[str], seed: int, balanced: bool
) -> None:
    expected = random_halves(names, rng(seed), balanced=balanced)
    assert random_halves(names, rng(seed), balanced=balanced) == expected
    assert random_halves(reversed(names), rng(seed), balanced=balanced) == expected


@pytest.mark.parametrize("balanced", [True, False])
def test_single_name_stays_one_group(balanced: bool) -> None:
    assert random_halves(["a"], rng(0), balanced=balanced) == [("a",)]


def test_either_side_can_be_the_larger_one_of_an_odd_number() -> None:
    generator = rng(1)
    larger_first = sum(len(random_halves("abcde", generator)[0]) == 3 for _ in range(1000)) / 1000
    assert larger_first == pytest.approx(0.5, abs=0.08)


def test_every_balanced_split_is_equally_likely() -> None:
    generator, draws = rng(2), 3000
    firsts = [random_halves("abcd", generator)[0] for _ in range(draws)]
    counts = {first: firsts.count(first) / draws for first in set(firsts)}
    assert counts == pytest.approx({(i, j): 1 / 6 for i in "abcd" for j in "abcd" if i < j}, abs=0.035)


def test_unbalanced_halves_reach_every_size() -> None:
    generator = rng(3)
    sizes = {len(random_halves("abcde", generator, balanced=False)[0]) for _ in range(200)}
    assert sizes == {1, 2, 3, 4}


@given(names=NAMES, seed=SEEDS)
def test_pair_is_two_different_names_in_order(names: list[str], seed: int) -> None:
    pair = random_pair(names, rng(seed))
    assert len(pair) == 2
    assert pair[0] < pair[1]
    assert set(pair) <= set(names)
    assert random_pair(reversed(names), rng(seed)) == pair


def test_every_pair_is_equally_likely() -> None:
    generator, draws = rng(4), 3000
    pairs = [random_pair("abcd", generator) for _ in range(draws)]
    counts = {pair: pairs.count(pair) / draws for pair in set(pairs)}
    assert counts == pytest.approx({(i, j): 1 / 6 for i in "abcd" for j in "abcd" if i < j}, abs=0.035)
