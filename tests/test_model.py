"""The algebra of states: what averages come to, what is refused and who is named."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from galafed.model import (
    Model,
    State,
    StateError,
    check,
    digest,
    impossible,
    kind_of,
    normalise,
    renormalise,
    schema_of,
    size_of,
    statistics,
    weighted_mean,
)

WEIGHTS = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=6)


def state_of(seed: int, dtype: torch.dtype = torch.float32) -> State:
    """A state with every kind of entry: a weight, BatchNorm statistics and their counter."""
    rng = torch.Generator().manual_seed(seed)
    return {
        "full.weight": torch.randn(3, 4, generator=rng, dtype=dtype),
        "norm.running_mean": torch.randn(4, generator=rng, dtype=dtype),
        "norm.running_var": torch.rand(4, generator=rng, dtype=dtype) + 0.1,
        "norm.num_batches_tracked": torch.tensor(seed),
    }


def clients(count: int, dtype: torch.dtype = torch.float32) -> dict[str, State]:
    return {f"c{n}": state_of(n, dtype) for n in range(count)}


# Means


@settings(max_examples=30)
@given(weights=WEIGHTS)
def test_mean_is_the_weighted_sum_over_the_sum_of_weights(weights: list[float]) -> None:
    states = clients(len(weights), torch.float64)
    mean = weighted_mean(states, dict(zip(states, weights, strict=True)))
    for name in ("full.weight", "norm.running_mean", "norm.running_var"):
        expected = sum(w * s[name] for w, s in zip(weights, states.values(), strict=True)) / sum(weights)
        torch.testing.assert_close(mean[name], expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=30)
@given(a=st.floats(-3, 3), b=st.floats(-3, 3), weights=WEIGHTS)
def test_mean_is_linear_in_the_states(a: float, b: float, weights: list[float]) -> None:
    one = {f"c{n}": {"w": state_of(n, torch.float64)["full.weight"]} for n in range(len(weights))}
    two = {f"c{n}": {"w": state_of(n + 50, torch.float64)["full.weight"]} for n in range(len(weights))}
    both = {c: {"w": a * one[c]["w"] + b * two[c]["w"]} for c in one}
    share = dict(zip(one, weights, strict=True))
    expected = a * weighted_mean(one, share)["w"] + b * weighted_mean(two, share)["w"]
    torch.testing.assert_close(weighted_mean(both, share)["w"], expected, rtol=1e-11, atol=1e-11)


def test_mean_of_one_client_is_its_state_to_the_bit() -> None:
    states = clients(1)
    assert digest({"p": weighted_mean(states, {"c0": 0.3})}) == digest({"p": states["c0"]})


def test_mean_does_not_depend_on_the_scale_of_the_weights() -> None:
    states = clients(3)
    small = weighted_mean(states, {"c0": 0.25, "c1": 0.5, "c2": 0.25})
    large = weighted_mean(states, {"c0": 256.0, "c1": 512.0, "c2": 256.0})
    assert digest({"p": small}) == digest({"p": large})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mean_has_the_same_bits_in_any_order_of_arrival(dtype: torch.dtype) -> None:
    states = clients(5, dtype)
    weights = {"c0": 0.1, "c1": 0.37, "c2": 0.13, "c3": 0.29, "c4": 0.11}
    expected = digest({"p": weighted_mean(states, weights)})
    for order in ([4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        shuffled = {f"c{n}": states[f"c{n}"] for n in order}
        reweighted = {f"c{n}": weights[f"c{n}"] for n in reversed(order)}
        assert digest({"p": weighted_mean(shuffled, reweighted)}) == expected


def test_mean_sums_in_float64_and_answers_in_the_states_own_precision() -> None:
    values = {"c0": 1e8, "c1": 1.0, "c2": -1e8}
    mean = weighted_mean({c: {"w": torch.tensor([v])} for c, v in values.items()}, dict.fromkeys(values, 1.0))
    assert mean["w"].dtype == torch.float32
    assert mean["w"].item() == pytest.approx(1 / 3, rel=1e-6)  # float32 sums would lose the 1


def test_mean_does_not_touch_its_inputs() -> None:
    states = clients(2)
    before = digest(states)
    weighted_mean(states, {"c0": 0.5, "c1": 0.5}, variance="mixture")["full.weight"].zero_()
    assert digest(states) == before


def test_counters_take_their_maximum() -> None:
    mean = weighted_mean(clients(4), {"c0": 1.0, "c1": 5.0, "c2": 1.0, "c3": 0.0})
    assert mean["norm.num_batches_tracked"].item() == 3
    assert mean["norm.num_batches_tracked"].dtype == torch.int64


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(2, 40), min_size=1, max_size=5), spread=st.floats(0, 10))
def test_mixture_variance_is_that_of_the_concatenated_data(sizes: list[int], spread: float) -> None:
    rng = torch.Generator().manual_seed(sum(sizes))
    data = [
        torch.randn(n, 3, generator=rng, dtype=torch.float64) * (1 + k) + spread * torch.randn(3, generator=rng)
        for k, n in enumerate(sizes)
    ]
    states = {
        f"c{k}": {"norm.running_mean": d.mean(dim=0), "norm.running_var": d.var(dim=0, correction=0)}
        for k, d in enumerate(data)
    }
    mean = weighted_mean(states, {f"c{k}": float(n) for k, n in enumerate(sizes)}, variance="mixture")
    pooled = torch.cat(data)
    torch.testing.assert_close(mean["norm.running_mean"], pooled.mean(dim=0), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(mean["norm.running_var"], pooled.var(dim=0, correction=0), rtol=1e-9, atol=1e-9)


def test_variance_rule_changes_nothing_but_running_variances() -> None:
    states, weights = clients(3), {"c0": 0.2, "c1": 0.5, "c2": 0.3}
    linear, mixture = (weighted_mean(states, weights, variance=rule) for rule in ("linear", "mixture"))
    assert {n for n in linear if not torch.equal(linear[n], mixture[n])} == {"norm.running_var"}
    assert bool((mixture["norm.running_var"] > linear["norm.running_var"]).all())  # the means differ
    assert mixture["norm.running_var"].dtype == torch.float32


# Refusals


def with_value(value: float) -> Callable[[State], State]:
    def spoil(state: State) -> State:
        weight = state["full.weight"].clone()
        weight[1, 2] = value
        return state | {"full.weight": weight}

    return spoil


SPOILS: dict[str, tuple[Callable[[State], State], str]] = {
    "nan": (with_value(math.nan), "full.weight"),
    "infinity": (with_value(math.inf), "full.weight"),
    "minus infinity": (with_value(-math.inf), "full.weight"),
    "transposed": (lambda s: s | {"full.weight": s["full.weight"].T.contiguous()}, "full.weight"),
    "longer": (lambda s: s | {"norm.running_mean": torch.zeros(5)}, "norm.running_mean"),
    "missing": (lambda s: {n: v for n, v in s.items() if n != "norm.running_var"}, "norm.running_var"),
    "unknown": (lambda s: s | {"full.bias": torch.zeros(3)}, "full.bias"),
    "whole numbers": (lambda s: s | {"full.weight": s["full.weight"].long()}, "full.weight"),
    "complex numbers": (lambda s: s | {"full.weight": s["full.weight"].to(torch.complex64)}, "full.weight"),
    "fractional counter": (lambda s: s | {"norm.num_batches_tracked": torch.tensor(1.0)}, "num_batches_tracked"),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_bad_state_is_refused_by_the_name_of_client_and_tensor(spoil: str) -> None:
    change, tensor = SPOILS[spoil]
    states = clients(3)
    schema = schema_of(states["c0"])
    states["c1"] = change(states["c1"])
    with pytest.raises(StateError, match="'c1'") as refused:
        check(states["c1"], schema, "c1")
    assert tensor in str(refused.value)
    with pytest.raises(StateError, match="'c1'"):
        weighted_mean(states, dict.fromkeys(states, 1.0))


def test_large_numbers_are_no_infinity_though_their_squares_are() -> None:
    states = clients(2)
    states["c1"] = with_value(1e30)(states["c1"])
    assert not impossible(states)
    assert weighted_mean(states, dict.fromkeys(states, 1.0))["full.weight"][1, 2] == pytest.approx(5e29)
    states["c0"] = with_value(math.inf)(states["c0"])
    assert list(impossible(states)) == ["c0"]


def test_bad_state_is_refused_even_with_weight_zero() -> None:
    states = clients(2)
    states["c1"] = with_value(math.nan)(states["c1"])
    with pytest.raises(StateError, match="'c1'"):
        weighted_mean(states, {"c0": 1.0, "c1": 0.0})


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf, -0.1])
def test_bad_weight_is_refused_by_the_name_of_the_client(weight: float) -> None:
    with pytest.raises(StateError, match="'c1'"):
        weighted_mean(clients(3), {"c0": 1.0, "c1": weight, "c2": 1.0})


def test_weights_that_are_all_zero_are_refused_by_the_names_of_the_clients() -> None:
    with pytest.raises(StateError, match="c0, c1"):
        weighted_mean(clients(2), {"c0": 0.0, "c1": 0.0})


def test_no_client_at_all_is_refused() -> None:
    with pytest.raises(StateError, match="no client is left"):
        weighted_mean({}, {})
    with pytest.raises(StateError, match="no client is left"):
        renormalise({"c0": 1.0}, ())


def test_good_state_is_accepted() -> None:
    check(state_of(0), schema_of(state_of(1)), "c0")


# Weights


@given(weights=st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0, 1e6), min_size=1, max_size=8))
def test_normalised_weights_sum_to_one_in_order_of_name(weights: dict[str, float]) -> None:
    if sum(weights.values()) < 1e-300:  # subnormal: nothing left to divide by
        return
    share = normalise(weights)
    assert list(share) == sorted(weights)
    assert math.fsum(share.values()) == pytest.approx(1)
    assert all(value >= 0 for value in share.values())


def test_renormalised_weights_keep_their_ratios_among_fewer_clients() -> None:
    weights = {"a": 0.5, "b": 0.3, "c": 0.2}
    assert renormalise(weights, ("c", "b")) == pytest.approx({"b": 0.6, "c": 0.4})
    assert renormalise(weights, weights) == pytest.approx(weights)


# Description


def test_statistics_are_the_batch_norm_buffers_alone() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    buffers = {name for name, _ in module.named_buffers()}
    assert set(statistics(dict(module.state_dict()))) == buffers


def test_size_counts_every_byte() -> None:
    states = {
        "a": {"x": torch.zeros(3, 4), "n": torch.tensor(1)},
        "b": {"y": torch.zeros(5, dtype=torch.float64), "z": torch.zeros(2, dtype=torch.uint8)},
    }
    assert size_of(states) == 12 * 4 + 8 + 5 * 8 + 2
    assert size_of({}) == 0


DIFFERENT: dict[str, dict[str, State]] = {
    "value": {"p": {"x": torch.tensor([1.0, 2.0, 3.0000002])}},
    "sign of zero": {"p": {"x": torch.tensor([1.0, 2.0, 3.0]), "y": torch.tensor(-0.0)}},
    "tensor name": {"p": {"z": torch.tensor([1.0, 2.0, 3.0])}},
    "part name": {"q": {"x": torch.tensor([1.0, 2.0, 3.0])}},
    "precision": {"p": {"x": torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)}},
    "shape": {"p": {"x": torch.tensor([[1.0, 2.0, 3.0]])}},
    "more": {"p": {"x": torch.tensor([1.0, 2.0, 3.0]), "y": torch.tensor(0.0)}},
    "same": {"p": {"x": torch.tensor([1.0, 2.0, 3.0])}},
}


def test_digest_tells_any_two_different_states_apart() -> None:
    assert len({digest(states) for states in DIFFERENT.values()}) == len(DIFFERENT)


def test_digest_does_not_depend_on_order_layout_or_tag() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    one = Model({"a": {"x": x, "y": x + 1}, "b": {"z": x}}, tag="h1")
    two = Model({"b": {"z": x.T.contiguous().T}, "a": {"y": x + 1, "x": x.clone()}})
    assert one.digest() == two.digest()


def test_kind_of_a_part_is_its_name_up_to_the_colon() -> None:
    assert [kind_of(part) for part in ("extractor", "predictor:a", "statistics:a:b")] == [
        "extractor",
        "predictor",
        "statistics",
    ]
