"""Soft centroids, their similarity (Eq. 7) and the relevance of sources (Eq. 8, 9 and MDMGB)."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from galafed.model import State, renormalise
from galafed.relevance import Rule, centroids_from, relevance, similarity, soft_sums

RULES: tuple[Rule, ...] = ("uniform", "mdmgb", "mdmgb+")
SIMILARITIES = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.0, 40.0), min_size=1)


def centroid(*means: list[float], share: list[float] | None = None) -> State:
    """A client's centroids, each class with the same share unless told."""
    share = share or [1 / len(means)] * len(means)
    return {"means": torch.tensor(means), "share": torch.tensor(share)}


# Centroids


def test_soft_centroids_equal_brute_force() -> None:
    rng = torch.Generator().manual_seed(1)
    features = torch.rand(20, 5, generator=rng, dtype=torch.float64)
    logits = torch.randn(20, 3, generator=rng, dtype=torch.float64)
    found = centroids_from(soft_sums(features, logits), features.dtype)
    for c in range(3):
        top, bottom = torch.zeros(5, dtype=torch.float64), 0.0
        for x in range(20):
            delta = math.exp(logits[x, c]) / sum(math.exp(logits[x, k]) for k in range(3))
            top += delta * features[x]
            bottom += delta
        torch.testing.assert_close(found["means"][c], top / bottom, rtol=1e-12, atol=1e-12)
        assert found["share"][c].item() == pytest.approx(bottom / 20, rel=1e-6)


def test_soft_sums_add_up_over_batches() -> None:
    rng = torch.Generator().manual_seed(2)
    features, logits = torch.rand(30, 4, generator=rng).double(), torch.randn(30, 3, generator=rng).double()
    whole = soft_sums(features, logits)
    parts = [soft_sums(f, z) for f, z in zip(features.split(7), logits.split(7), strict=True)]
    for name, value in whole.items():
        torch.testing.assert_close(sum(part[name] for part in parts), value)


def test_certain_predictions_give_class_means() -> None:
    features = torch.rand(12, 4, generator=torch.Generator().manual_seed(3))
    labels = torch.arange(12) % 3
    logits = 1e4 * torch.nn.functional.one_hot(labels, 3).float()
    found = centroids_from(soft_sums(features, logits), features.dtype)
    expected = torch.stack([features[labels == c].mean(dim=0) for c in range(3)])
    torch.testing.assert_close(found["means"], expected)
    torch.testing.assert_close(found["share"], torch.full((3,), 1 / 3))


def test_class_nobody_predicts_gives_no_nan() -> None:
    logits = torch.tensor([[1e4, 0.0]]).repeat(5, 1)
    found = centroids_from(soft_sums(torch.rand(5, 3), logits), torch.float32)
    assert found["share"].tolist() == [1.0, 0.0]
    assert bool(torch.isfinite(found["means"]).all())


# Similarity


def test_similarity_by_hand() -> None:
    centroids = {
        "t": centroid([1.0, 0.0], [0.0, 2.0]),
        "a": centroid([3.0, 0.0], [0.0, 1.0]),  # cosines 1 and 1
        "b": centroid([0.0, 1.0], [1.0, 1.0]),  # cosines 0 and 1/√2
        "c": centroid([-2.0, 0.0], [1.0, 0.0]),  # cosines -1 and 0
    }
    expected = {"a": 4.0, "b": 2 + 1 / math.sqrt(2), "c": 1.0}
    assert similarity(centroids, target="t") == pytest.approx(expected)


def test_similarity_leaves_the_target_out_and_orders_by_name() -> None:
    same = centroid([1.0, 2.0])
    assert list(similarity({"z": same, "t": same, "a": same}, target="t")) == ["a", "z"]


def test_similarity_does_not_depend_on_the_length_of_centroids() -> None:
    one = {"t": centroid([1.0, 2.0]), "a": centroid([2.0, 1.0])}
    two = {"t": centroid([1e-6, 2e-6]), "a": centroid([2e6, 1e6])}
    assert similarity(one, target="t") == pytest.approx(similarity(two, target="t"))


@pytest.mark.parametrize("where", ["t", "a", "b"])
def test_class_absent_anywhere_adds_nothing_for_anybody(where: str) -> None:
    means = {"t": ([1.0, 0.0], [1.0, 0.0]), "a": ([1.0, 0.0], [0.0, 1.0]), "b": ([1.0, 1.0], [1.0, 0.0])}
    centroids = {n: centroid(*m, share=[0.9999, 0.0001] if n == where else [0.5, 0.5]) for n, m in means.items()}
    assert similarity(centroids, target="t") == pytest.approx({"a": 2.0, "b": 1 + 1 / math.sqrt(2)})


def test_class_of_one_in_a_thousand_is_present() -> None:
    centroids = {n: centroid([1.0, 0.0], [0.0, 1.0], share=[0.998, 0.002]) for n in "ta"}
    assert similarity(centroids, target="t") == pytest.approx({"a": 4.0})


@pytest.mark.parametrize("rule", RULES)
def test_all_classes_absent_gives_uniform_relevance(rule: Rule) -> None:
    rng = torch.Generator().manual_seed(4)
    everyone = {n: {"means": torch.rand(2, 3, generator=rng), "share": torch.zeros(2)} for n in "tabc"}
    found = relevance(similarity(everyone, target="t"), rule=rule)
    assert found == pytest.approx(dict.fromkeys("abc", 1 / 3))


@pytest.mark.parametrize("rule", RULES)
def test_centroid_of_zeros_gives_no_nan(rule: Rule) -> None:
    everyone = {"t": centroid([0.0, 0.0]), "a": centroid([0.0, 0.0]), "b": centroid([1.0, 0.0])}
    assert sum(relevance(similarity(everyone, target="t"), rule=rule).values()) == pytest.approx(1)


# Relevance


def test_relevance_by_hand() -> None:
    S = {"a": 4.0, "b": 3.0, "c": 1.0}
    assert relevance(S, rule="uniform") == pytest.approx(dict.fromkeys("abc", 1 / 3))
    assert relevance(S, rule="mdmgb") == pytest.approx({"a": 4 / 8, "b": 3 / 8, "c": 1 / 8})
    total = math.exp(2.0) + math.exp(1.5) + math.exp(0.5)
    expected = {"a": math.exp(2.0) / total, "b": math.exp(1.5) / total, "c": math.exp(0.5) / total}
    assert relevance(S, rule="mdmgb+", tau=0.5) == pytest.approx(expected)


@given(S=SIMILARITIES, tau=st.floats(1e-6, 1e6), rule=st.sampled_from(RULES))
def test_relevance_sums_to_one(S: dict[str, float], tau: float, rule: Rule) -> None:
    found = relevance(S, rule=rule, tau=tau)
    assert found.keys() == S.keys()
    assert math.fsum(found.values()) == pytest.approx(1)
    assert all(0 <= w <= 1 for w in found.values())


@given(S=SIMILARITIES, tau=st.floats(0.01, 5.0), constant=st.floats(0.1, 20.0))
def test_mdmgb_plus_does_not_depend_on_a_constant_added_to_everyone(
    S: dict[str, float], tau: float, constant: float
) -> None:
    moved = {source: s + constant for source, s in S.items()}
    assert relevance(moved, tau=tau) == pytest.approx(relevance(S, tau=tau), abs=1e-9)


def test_plain_mdmgb_does_depend_on_the_constant() -> None:
    assert relevance({"a": 2.0, "b": 1.0}, rule="mdmgb") != pytest.approx(
        relevance({"a": 3.0, "b": 2.0}, rule="mdmgb"), abs=0.05
    )


@given(S=SIMILARITIES, tau=st.floats(0.01, 5.0), rule=st.sampled_from(RULES), data=st.data())
def test_relevance_in_a_group_is_relevance_renormalised(
    S: dict[str, float], tau: float, rule: Rule, data: st.DataObject
) -> None:
    group = data.draw(st.lists(st.sampled_from(sorted(S)), min_size=1, unique=True))
    everyone = relevance(S, rule=rule, tau=tau)
    if sum(everyone[n] for n in group) < 1e-12:  # underflow: the group as a whole has no weight
        return
    if not any(S[n] for n in group):  # a group of strangers shares equally
        return
    assert relevance({n: S[n] for n in group}, rule=rule, tau=tau) == pytest.approx(renormalise(everyone, group))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("count", [1, 2, 5, 17])
def test_equal_sources_are_equally_relevant(rule: Rule, count: int) -> None:
    same = centroid([0.3, 0.4], [0.1, 0.9])
    everyone = {"t": centroid([1.0, 0.0], [0.5, 0.5])} | {f"s{n}": same for n in range(count)}
    found = relevance(similarity(everyone, target="t"), rule=rule, tau=3.0)
    assert found == pytest.approx({f"s{n}": 1 / count for n in range(count)}, rel=1e-12)


def test_huge_tau_picks_the_most_similar_source() -> None:
    assert relevance({"a": 19.0, "b": 20.0, "c": 1.0}, tau=1e300) == {"a": 0.0, "b": 1.0, "c": 0.0}


def test_tiny_tau_is_uniform() -> None:
    assert relevance({"a": 19.0, "b": 20.0, "c": 1.0}, tau=1e-300) == pytest.approx(dict.fromkeys("abc", 1 / 3))


@given(S=SIMILARITIES, tau=st.floats(0.01, 2.0))
def test_more_similar_is_never_less_relevant(S: dict[str, float], tau: float) -> None:
    found = relevance(S, tau=tau)
    assert all(found[a] <= found[b] for a in S for b in S if S[a] <= S[b])
