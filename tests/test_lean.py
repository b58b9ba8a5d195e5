"""What a processor does differently in the engine `stacked`: the same numbers with fewer passes over memory."""

from __future__ import annotations

import copy
import platform
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from galafed.networks.base import networks
from galafed.networks.layers import Dropout, keep_mask, set_dropout_key
from galafed.stacking.descent import Descent
from galafed.stacking.lean import LeanBench, lean
from galafed.stacking.masking import QuickDropout, quick_mask
from galafed.stacking.normed import norm_pool_relu, poolable
from galafed.work import Sgd

CPU = torch.device("cpu")


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Normal numbers."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def randomised(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module with factors, shifts and statistics as training leaves them."""
    draw = torch.Generator().manual_seed(seed)
    for name, value in [*module.named_parameters(), *module.named_buffers()]:
        if value.is_floating_point():
            with torch.no_grad():
                value.copy_(torch.rand(value.shape, dtype=value.dtype, generator=draw) * 0.5 + 0.3 * ("weight" in name))
    return module


# Dropout


@given(st.integers(0, 2**63 - 1), st.integers(0, 9), st.floats(0, 0.99), st.integers(1, 300))
def test_masks_by_numpy_are_the_same(key: int, layer: int, p: float, count: int) -> None:
    expected = keep_mask(torch.tensor(key), layer, p, torch.Size((count,)), CPU)
    assert torch.equal(torch.from_numpy(quick_mask(key, layer, p, count)), expected)


@pytest.mark.parametrize("training", [True, False])
def test_dropout_has_the_same_bits(training: bool) -> None:
    plain, quick = Dropout(0.3, layer=2).train(training), QuickDropout(0.3, layer=2).train(training)
    x = drawn(5, 7).requires_grad_()
    for layer in (plain, quick):
        layer.key.fill_(12345678901234567)
    (slope,), (quick_slope,) = (torch.autograd.grad(layer(x).square().sum(), x) for layer in (plain, quick))
    assert torch.equal(plain(x), quick(x))
    assert torch.equal(slope, quick_slope)


# BatchNorm after the maximum


def flat_places(side: int) -> Tensor:
    """Images [4, 6, side, side] with channels last, half of them of one colour, where many maxima tie."""
    y = drawn(4, 6, side, side) + drawn(1, 6, 1, 1, seed=1)
    y[::2] = y[::2, :, :1, :1]
    return y.contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("moves", [("y", "norm"), ("norm",), ()], ids=str)
@pytest.mark.parametrize("side", [8, 7])
def test_norm_after_pooling_equals_pooling_after_norm(side: int, moves: tuple[str, ...]) -> None:
    pool, y = nn.MaxPool2d(3, stride=2, padding=1), flat_places(side).requires_grad_("y" in moves)
    plain = randomised(nn.BatchNorm2d(6).double()).requires_grad_("norm" in moves)
    other = copy.deepcopy(plain)
    assert poolable(other, y)
    expected, found = pool(plain(y).relu()), norm_pool_relu(other, pool, y)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(other.state_dict(), plain.state_dict(), atol=1e-14, rtol=1e-14)
    assert found.requires_grad == bool(moves)
    if moves:
        weights = drawn(*expected.shape, seed=3)  # laid out differently, as after flattening
        own = [*([y] if "y" in moves else []), plain.weight, plain.bias]
        theirs = [*([y] if "y" in moves else []), other.weight, other.bias]
        slopes, found_slopes = torch.autograd.grad(expected, own, weights), torch.autograd.grad(found, theirs, weights)
        torch.testing.assert_close(found_slopes, slopes, atol=1e-11, rtol=1e-11)


def test_norm_before_pooling_where_a_factor_is_not_positive() -> None:
    norm = randomised(nn.BatchNorm2d(6).double())
    y = flat_places(8)
    assert not poolable(copy.deepcopy(norm).eval(), y)
    assert not poolable(norm, y.contiguous())
    with torch.no_grad():
        norm.weight[2] = -0.4
    assert not poolable(norm, y)


@pytest.mark.parametrize("sign", [1, -1], ids="factors of sign {}".format)
@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("mode", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("part", ["extractor", "predictor"])
def test_lean_modules_do_what_plain_ones_do(part: str, mode: bool, learns: bool, sign: int) -> None:
    network = networks.get("small_cnn")(classes=3, image_size=8)
    plain = randomised(network.make(part).double()).train(mode)
    for layer in plain.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.weight.data.mul_(sign)
    quick = LeanBench(network, CPU, torch.float64).modules({part: plain.state_dict()})[part].train(mode)
    for module in (plain, quick):
        set_dropout_key(module, 7)
    shape = (6, 3, 8, 8) if part == "extractor" else (6, network.feature_size)
    x = drawn(*shape)
    with torch.set_grad_enabled(learns):
        expected, found = plain(x), quick(x)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(dict(quick.state_dict()), dict(plain.state_dict()), atol=1e-13, rtol=1e-13)
    if learns:
        slopes = [
            torch.autograd.grad(y.square().sum(), list(m.parameters())) for m, y in ((plain, expected), (quick, found))
        ]
        named = [
            dict(zip((name for name, _ in m.named_parameters()), s, strict=True))
            for m, s in zip((plain, quick), slopes, strict=True)
        ]
        torch.testing.assert_close(named[1], named[0], atol=1e-10, rtol=1e-10)


def test_lean_modules_pool_before_relu() -> None:
    names = [
        name for name, _ in lean(networks.get("small_cnn")(classes=3, image_size=8).make("extractor")).named_children()
    ]
    assert names == ["conv1", "norm1", "pool1", "relu1", "conv2", "norm2", "pool2", "relu2", "flatten"]


# The optimiser


@pytest.mark.parametrize("different", [{}, {"momentum": 0.0}, {"weight_decay": 0.0}], ids=str)
def test_descent_equals_sgd(different: Mapping[str, Any]) -> None:
    settings = Sgd(**{"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, **different})
    factors = [1.0, 0.5, 1.0]
    mine = [nn.Parameter(drawn(4, 3, seed=seed)) for seed in range(3)]
    theirs = [nn.Parameter(parameter.detach().clone()) for parameter in mine]
    descent = Descent(settings, {factor: torch.tensor(settings.lr * factor, dtype=torch.float64) for factor in factors})
    for parameter, factor in zip(mine, factors, strict=True):
        descent.add(parameter, torch.zeros_like(parameter), factor)
    groups = [{"params": [p], "lr": settings.lr * factor} for p, factor in zip(theirs, factors, strict=True)]
    reference = torch.optim.SGD(groups, momentum=settings.momentum, weight_decay=settings.weight_decay)
    for step in range(3):
        # The second has no gradient, the third one that does not lie in order.
        gradients = [drawn(4, 3, seed=step), None, drawn(3, 4, seed=step).T]
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient
        descent.step(gradients)
        reference.step()
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-14, rtol=1e-14)
    assert torch.equal(mine[1], drawn(4, 3, seed=1))


# Memory

FAULTS = """
import os, resource
os.sched_getaffinity = lambda pid: {0, 1}
import torch
from galafed.reproduction.timing import TimedRounds, timed_run
torch.set_num_threads(1)
settings = {"network": "small_cnn", "engine": "stacked", "device": "cpu", "training": {"batch_size": 64}}
run = TimedRounds(timed_run("gala", 4, images=128, **settings))
faults = []
for number in range(6):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    run.round(number)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(sorted(faults)[2])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the habits of glibc")
def test_workers_that_are_threads_keep_their_memory() -> None:
    """Rounds after the first fault 61 to 2100 pages in; 6800 to 16000 where a heap's end goes back to the system."""
    told = subprocess.run([sys.executable, "-c", FAULTS], check=True, capture_output=True, text=True)
    assert int(told.stdout) < 4000
