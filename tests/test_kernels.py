"""Triton kernels equal the plain layers they stand for: compiled on a GPU, interpreted where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from galafed.networks.base import networks
from galafed.networks.efficientnet_lite0 import InvertedBottleneck
from galafed.networks.layers import keep_mask, last_layer
from galafed.stacking import kernels
from galafed.stacking.lane import losses_of
from galafed.stacking.layers import StackedConv2d
from galafed.stacking.twins import twin as plain_twin
from galafed.tasks import align, train
from galafed.training import Training
from galafed.work import Batch, Sgd
from test_stacked import distance, play

triton = pytest.importorskip("triton")

from galafed.stacking import low  # noqa: E402
from galafed.stacking.fused import fused_twin, low_layers  # noqa: E402
from galafed.stacking.kernels.conv import Convolution  # noqa: E402
from galafed.stacking.kernels.conv_gradient import descend as conv_descend  # noqa: E402
from galafed.stacking.kernels.depthwise import (  # noqa: E402
    Depthwise,
    DepthwiseConv2d,
    PointwiseConv2d,
    convolution,
)
from galafed.stacking.kernels.gather import LARGEST, gather  # noqa: E402
from galafed.stacking.kernels.linear import descend  # noqa: E402
from galafed.stacking.kernels.losses import twin_of  # noqa: E402
from galafed.stacking.kernels.narrow import NarrowProduct  # noqa: E402
from galafed.stacking.kernels.pooling import NormReluPool, pooled  # noqa: E402
from galafed.stacking.kernels.rows import Mask, NormReluMask, StackedMask, normalised  # noqa: E402
from galafed.stacking.low import LowLinear  # noqa: E402

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
KEYS = [2**62 + 12345, 987654321234]


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Random numbers that want a gradient."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(DEVICE).requires_grad_()


def close(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """Equal within the rounding of float32 sums."""
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=2e-4, rtol=2e-4)


def held(weight: Tensor) -> Any:
    """What a convolution's kernels know of its layer."""
    return SimpleNamespace(low=weight.detach().permute(0, 3, 4, 2, 1).flatten(1, 2).contiguous(), pending=[])


def gradient_of(layer: Any, weight: Tensor) -> Tensor:
    """The gradient the backward pass left, as a step of 1 from nothing shows it."""
    nothing, momentum = torch.zeros_like(layer.low), torch.zeros_like(layer.low)
    one = torch.ones((), device=DEVICE)
    (parts,) = layer.pending
    conv_descend(parts, nothing, momentum, torch.empty_like(nothing), one, mu=0.9, decay=0.1)
    n, o, i, k, _ = weight.shape
    return -nothing.view(n, k, k, i, o).permute(0, 4, 3, 1, 2)


@pytest.mark.parametrize(("channels", "wider", "size"), [(3, 16, 5), (16, 32, 5), (16, 16, 3)])
def test_convolution(channels: int, wider: int, size: int) -> None:
    x = draw(2, 3, 7, 6, channels).requires_grad_(channels > 3)  # images have no gradient
    weight, bias = draw(2, wider, channels, size, size, seed=1), draw(2, wider, seed=2)
    layer = held(weight)
    y, _ = Convolution.apply(x, weight, bias, layer, False)
    pictures = x.permute(0, 1, 4, 2, 3)
    plain = torch.stack(
        [functional.conv2d(pictures[k], weight[k], bias[k], padding=size // 2).permute(0, 2, 3, 1) for k in range(2)]
    )
    gradient = draw(*plain.shape, seed=3).detach()
    close((y,), (plain,))
    wanted = (bias, weight) if channels == 3 else (bias, weight, x)
    found = list(torch.autograd.grad(y, wanted, gradient, allow_unused=True))
    found[1] = gradient_of(layer, weight)
    close(found, torch.autograd.grad(plain, wanted, gradient))


@pytest.mark.parametrize(
    ("channels", "size", "stride", "side"), [(5, 3, 1, 6), (70, 3, 2, 7), (16, 5, 1, 8), (3, 5, 2, 9)]
)
@pytest.mark.parametrize("frozen", ["nothing", "images", "weights"])
def test_convolution_within_channels(channels: int, size: int, stride: int, side: int, frozen: str) -> None:
    x = draw(2, 3, side, side + 1, channels).requires_grad_(frozen != "images")
    weight = draw(2, channels, 1, size, size, seed=1).requires_grad_(frozen != "weights")
    y = Depthwise.apply(x, weight.flatten(2).transpose(1, 2).contiguous(), stride)
    pictures = x.permute(0, 1, 4, 2, 3)
    convolve = partial(functional.conv2d, stride=stride, groups=channels)
    plain = torch.stack([convolve(pictures[k], weight[k]).permute(0, 2, 3, 1) for k in range(2)])
    gradient = draw(*plain.shape, seed=3).detach()
    close((y,), (plain,))
    wanted = [value for value in (x, weight) if value.requires_grad]
    close(torch.autograd.grad(y, wanted, gradient), torch.autograd.grad(plain, wanted, gradient))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["within channels", "of one pixel", "of another kind"])
def test_the_twin_of_a_convolution_is_chosen_by_its_kind(
    kind: str, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("galafed.stacking.kernels.depthwise.LOW", torch.float32)
    layer, expected = {
        "within channels": (nn.Conv2d(6, 6, 3, stride=2, groups=6, bias=bias), DepthwiseConv2d),
        "of one pixel": (nn.Conv2d(6, 4, 1, bias=bias), PointwiseConv2d),
        "of another kind": (nn.Conv2d(6, 4, 3, padding=1, bias=bias), StackedConv2d),
    }[kind]
    twins = [convolution(layer, 2), StackedConv2d(layer, 2)]
    assert type(twins[0]) is expected
    x, found = draw(2, 3, 6, 7, 8), []
    for twin in twins:
        values = {name: draw(*value.shape, seed=k) for k, (name, value) in enumerate(twin.named_parameters())}
        y = torch.func.functional_call(twin.to(DEVICE), values, (x,))
        found.append((y, *torch.autograd.grad(y.square().sum(), [x, *values.values()])))
    close(*found)


def test_a_bottleneck_on_kernels_is_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("galafed.stacking.kernels.depthwise.LOW", torch.float32)
    block = InvertedBottleneck(8, 8, kernel=5, stride=1, expansion=2, side=6).to(DEVICE)
    x, found = draw(2, 4, 8, 6, 6), []
    for twin in (fused_twin(block, 2), plain_twin(block, 2)):
        values = {name: draw(*value.shape, seed=k) for k, (name, value) in enumerate(twin.named_parameters())}
        state = {name: torch.zeros_like(value) for name, value in twin.named_buffers()}
        y = torch.func.functional_call(twin.train(), {**values, **state}, (x,))
        found.append((y, *torch.autograd.grad(y.square().sum(), [x, *values.values()]), *state.values()))
    close(*found)


@pytest.mark.parametrize("name", ["digit_cnn", "digit_cnn_bn", "small_cnn", "small_linear", "efficientnet_lite0"])
def test_the_last_layer_of_a_predictor_on_kernels_is_applied_by_itself(name: str) -> None:
    with torch.device("meta"):
        predictor = fused_twin(networks.get(name)(classes=10, image_size=32).predictor(), 1)
    assert last_layer(predictor) in predictor._plan  # else what enters it could not be caught


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from galafed.stacking.kernels import depthwise

for kernel in (depthwise._convolve, depthwise._turn, depthwise._gradient):
    for settings in ({"K": 3, "S": 1, "BM": 32, "BC": 64}, {"K": 5, "S": 2, "BM": 32, "BC": 64}):
        names = kernel.arg_names
        kinds = dict.fromkeys(names, "i32") | dict.fromkeys(("x", "y", "dx", "dy"), "*bf16")
        kinds |= dict.fromkeys(("w", "dw"), "*fp32") | dict.fromkeys(settings, "constexpr")
        source = ASTSource(
            fn=kernel,
            signature={name: kinds[name] for name in names},
            constexprs={(names.index(name),): value for name, value in settings.items()},
            attrs={(names.index(name),): [["tt.divisibility", 16]] for name in names if name[-1] in "xyw"},
        )
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
        print(kernel.__name__, "ld.global" in made.asm["ptx"])
"""


def test_kernels_compile_for_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    """The interpreter takes more than the compiler does."""
    place = {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], env=os.environ | place, capture_output=True, text=True, check=False
    )
    assert done.stdout.count("True") == 6, done.stderr


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("side", [8, 7])
def test_convolution_norm_relu_pool(side: int, flat: bool) -> None:
    x, weight, bias = draw(2, 3, side, side, 3).detach(), draw(2, 16, 3, 5, 5, seed=1), draw(2, 16, seed=2)
    scale, shift = draw(2, 16, seed=3), draw(2, 16, seed=4)
    statistics = [(torch.zeros(2, 16, device=DEVICE), torch.ones(2, 16, device=DEVICE)) for _ in range(2)]
    counter = torch.zeros(2, dtype=torch.int64, device=DEVICE)
    layer = held(weight)
    y, sums = Convolution.apply(x, weight, bias, layer, True)
    found = NormReluPool.apply(y, sums, scale, shift, *statistics[0], counter, 0.1, 1e-5, flat)
    outputs = []
    for k in range(2):
        z = functional.conv2d(x[k].permute(0, 3, 1, 2), weight[k], bias[k], padding=2)
        mean, variance = (values[k] for values in statistics[1])
        z = functional.batch_norm(z, mean, variance, scale[k], shift[k], True, 0.1, 1e-5).relu()
        z = functional.max_pool2d(z, 3, stride=2, padding=1)
        outputs.append(z.flatten(1) if flat else z.permute(0, 2, 3, 1))
    plain = torch.stack(outputs)
    gradient = draw(*plain.shape, seed=5).detach()
    close((found, *statistics[0]), (plain, *statistics[1]))
    wanted = (weight, bias, scale, shift)
    gradients = list(torch.autograd.grad(found, wanted, gradient, allow_unused=True))
    gradients[0] = gradient_of(layer, weight)
    close(gradients, torch.autograd.grad(plain, wanted, gradient))
    assert counter.tolist() == [1, 1]


def test_pool_with_given_statistics() -> None:
    x, scale, shift = draw(1, 2, 6, 6, 16).detach(), draw(1, 16, seed=1), draw(1, 16, seed=2)
    mean, deviation = draw(1, 16, seed=3).detach(), draw(1, 16, seed=4).detach().exp()
    found, places = pooled(x, mean, deviation, scale, shift, False, places=False)
    assert places.numel() == 0
    z = ((x - mean) * deviation * scale + shift).relu()[0].permute(0, 3, 1, 2)
    close((found[0],), (functional.max_pool2d(z, 3, stride=2, padding=1).permute(0, 2, 3, 1),))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("mask", [Mask(), Mask(0.5, 2)])
def test_norm_relu_mask(mask: Mask, transposed: bool) -> None:
    x = draw(2, 24, 10).mT if transposed else draw(2, 10, 24)
    lost, scale, shift = draw(2, 24, seed=1), draw(2, 24, seed=2), draw(2, 24, seed=3)
    keys = torch.tensor(KEYS, device=DEVICE)
    statistics = [(torch.zeros(2, 24, device=DEVICE), torch.ones(2, 24, device=DEVICE)) for _ in range(2)]
    counter = torch.zeros(2, dtype=torch.int64, device=DEVICE)
    found = NormReluMask.apply(x, lost, scale, shift, *statistics[0], counter, 0.1, 1e-5, keys, mask)
    whole = x + lost.unsqueeze(1)
    plain = torch.stack(
        [
            functional.batch_norm(whole[k], *(v[k] for v in statistics[1]), scale[k], shift[k], True, 0.1, 1e-5).relu()
            for k in range(2)
        ]
    )
    if mask.p:
        plain = plain * keep_mask(keys.view(-1, 1, 1), mask.layer, mask.p, plain.shape[1:], DEVICE) / (1 - mask.p)
    gradient = draw(*plain.shape, seed=5).detach()
    close((found, *statistics[0]), (plain, *statistics[1]))
    close(*(torch.autograd.grad(out, (x, lost, scale, shift), gradient) for out in (found, plain)))
    assert counter.tolist() == [1, 1]


@pytest.mark.parametrize("transposed", [False, True])
def test_norm_relu_with_given_statistics(transposed: bool) -> None:
    x = draw(2, 140, 18).mT if transposed else draw(2, 18, 140)
    lost, scale, shift, mean = (draw(2, 140, seed=k) for k in range(1, 5))
    variance = draw(2, 140, seed=5).exp()
    found = normalised(x, lost, mean, variance, scale, shift, 1e-5)
    plain = (x + (lost - mean)[:, None]) * (variance + 1e-5).rsqrt()[:, None] * scale[:, None] + shift[:, None]
    close((found,), (plain.relu(),))


def test_dropout_draws_the_same_mask() -> None:
    x, keys = draw(2, 5, 300), torch.tensor(KEYS, device=DEVICE)
    found = StackedMask.apply(x, keys, Mask(0.25, 3))
    keep = keep_mask(keys.view(-1, 1, 1), 3, 0.25, x.shape[1:], DEVICE)
    assert torch.equal(found != 0, keep)
    torch.testing.assert_close(found, x * keep / 0.75)
    (gradient,) = torch.autograd.grad(found, x, torch.ones_like(found))
    torch.testing.assert_close(gradient, keep / 0.75)


@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(10, 40, 24), (64, 128, 64)])
def test_one_pass_of_gradient_and_sgd(rows: int, inputs: int, outputs: int) -> None:
    x, dy = draw(2, rows, inputs).detach(), draw(2, rows, outputs, seed=1).detach()
    weight, momentum = draw(2, outputs, inputs, seed=2).detach(), draw(2, outputs, inputs, seed=3).detach()
    rate, low = torch.tensor(0.1, device=DEVICE), torch.empty_like(weight)
    expected = 0.9 * momentum + dy.mT @ x + 0.01 * weight
    moved = weight - 0.1 * expected
    descend(x, dy, weight, momentum, low, rate, mu=0.9, decay=0.01)
    close((momentum, weight, low), (expected, moved, moved))


@pytest.mark.parametrize("side", [4, 60])
def test_batches_are_gathered_by_number(side: int) -> None:
    """Images of one block, and of more: the last one is not full."""
    assert (side * side * 3 > LARGEST) == (side == 60)
    pictures = torch.randint(0, 256, (9, side, side, 3), dtype=torch.uint8, device=DEVICE)
    labels = torch.arange(9, device=DEVICE)
    order = torch.tensor([[[0, 1], [2, 3]], [[8, 4], [5, 5]]], device=DEVICE)
    factors, offsets = torch.tensor([1.0, 2.0, 3.0], device=DEVICE), torch.tensor([0.0, -1.0, 5.0], device=DEVICE)
    found, chosen = gather(pictures, labels, order, torch.tensor([1], device=DEVICE), factors, offsets, torch.float32)
    assert chosen is not None
    assert chosen.tolist() == [[8, 4], [5, 5]]
    expected = (pictures[order[1]].float() * factors + offsets).permute(0, 1, 4, 2, 3)
    torch.testing.assert_close(found, expected)


@pytest.mark.skipif(DEVICE.type == "cuda", reason="checks the kernels' arithmetic in float32, by the interpreter")
@pytest.mark.parametrize(
    ("algorithm", "rounds", "largest"), [("gala", 1, 10), ("kd3a", 1, 10), ("mdan", 1, 8), ("dsbn", 2, 8)]
)
def test_rounds_with_kernels_equal_serial(
    algorithm: str, rounds: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KD3A has work of the target that is not stacked, and so must not be done on twins; MDAN applies a layer to
    several domains in one step; DSBN lends layers and remembers, and in its second round it knows single images.
    """
    sizes = {"a": largest, "b": 8, "t": 8}
    different = {"algorithm": algorithm, "dtype": torch.float32, "rounds": rounds, "sizes": sizes, "threads": 64}
    serial, _ = play("serial", **different)
    monkeypatch.setattr(kernels, "usable", lambda bench: True)
    monkeypatch.setattr(kernels, "LOW", torch.float32)
    stacked, _ = play("stacked", at_once=4, **different)
    assert 0 < distance(serial, stacked) < 1e-4


@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(70, 24, 10), (5, 100, 3)])
@pytest.mark.parametrize("frozen", [False, True])
def test_narrow_product(rows: int, inputs: int, outputs: int, frozen: bool) -> None:
    x, weight, bias = draw(2, rows, inputs), draw(2, outputs, inputs, seed=1), draw(2, outputs, seed=2)
    wanted = (x,) if frozen else (x, weight, bias)
    weight.requires_grad_(not frozen)
    bias.requires_grad_(not frozen)
    results = (NarrowProduct.apply(x, weight, bias), torch.baddbmm(bias.unsqueeze(1), x, weight.mT))
    gradient = draw(2, rows, outputs, seed=3).detach()
    close(results[:1], results[1:])
    close(*(torch.autograd.grad(result, wanted, gradient) for result in results))


SGD = Training(lr=0.1, weight_decay=0.0, batch_size=8).sgd(0, 1)


@pytest.mark.parametrize(("rows", "classes"), [(70, 10), (5, 3), (64, 4)])
def test_losses_of_many_clients_are_those_of_each(rows: int, classes: int) -> None:
    entropy = train(**SGD, mixup=0.0).work.steps[0]
    apart = align(groups=[{"1": 1.0}, {"2": 1.0}], scale=0.3, dropout=True, **SGD).work.steps[0]
    outputs = {name: draw(2, rows, classes, seed=k) for k, name in enumerate(["logits", *apart.outputs])}
    labels = torch.randint(0, classes, (2, rows), device=DEVICE)
    batch, factor = Batch(draw(2, rows, 1, 1, 1).detach(), labels), torch.tensor([1.0, 2.5], device=DEVICE)
    for step, names in ((entropy, ["logits"]), (apart, list(apart.outputs))):
        fused = twin_of(step)
        assert fused is not None
        found, plain = fused(outputs, batch), losses_of(step, outputs, batch)
        close((found,), (plain,))
        wanted = [outputs[name] for name in names]
        close(*(torch.autograd.grad(losses, wanted, factor) for losses in (found, plain)))


def test_a_loss_without_a_kernel_has_no_twin() -> None:
    groups = [{"1": 0.5, "2": 0.5}, {"3": 1.0}]
    assert twin_of(align(groups=groups, scale=0.3, dropout=True, **SGD).work.steps[0]) is None


def low_layer(inputs: int, outputs: int, seed: int) -> LowLinear:
    """A fully connected layer of two clients, without low precision."""
    layer = LowLinear(nn.Linear(inputs, outputs), 2)
    layer.weight = nn.Parameter(draw(2, outputs, inputs, seed=seed).detach())
    layer.bias = nn.Parameter(draw(2, outputs, seed=seed + 1).detach())
    layer.keep(layer.weight.detach().clone())
    return layer


@pytest.mark.skipif(DEVICE.type == "cuda", reason="checks the kernels' arithmetic in float32, by the interpreter")
@pytest.mark.parametrize("width", [16, 20])
@pytest.mark.parametrize("times", [1, 2])
def test_a_step_of_layers_whose_inputs_another_product_left_transposed(width: int, times: int) -> None:
    """Widths that are no multiple of 8 leave a transposed tensor; a layer may be applied several times in a step."""
    first, second = low_layer(24, width, 0), low_layer(width, 1, 5)
    images = [draw(2, 6, 24, seed=20 + k).detach() for k in range(times)]
    (expected,) = torch.autograd.grad(
        sum(
            (torch.baddbmm(first.bias.unsqueeze(1), x, first.weight.mT).relu() @ second.weight.mT).square().sum()
            for x in images
        ),
        [second.weight],
    )
    second.bias = None  # type: ignore[assignment]
    sum(second(first(x).relu()).square().sum() for x in images).backward()  # type: ignore[union-attr]
    before, momentum = second.weight.detach().clone(), torch.zeros_like(second.weight)
    second.descend(momentum, torch.tensor(1.0, device=DEVICE), Sgd(lr=1.0, momentum=0.0, weight_decay=0.0))
    close((before - second.weight.detach(),), (expected,))
    assert not second.pending


def test_a_module_may_itself_be_a_layer_of_low_precision() -> None:
    (name,) = low_layers(low_layer(24, 20, 0))
    assert name == "weight"
    assert list(low_layers(nn.Sequential(low_layer(24, 20, 0)))) == ["0.weight"]


def test_what_a_step_in_the_background_needs_is_made_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The background waits for the moment from which on the weights are unused, and for nothing that came later."""
    happened, layer = list[str](), low_layer(24, 20, 0)

    class Side:
        def wait_event(self, event: object) -> None:
            happened.append(f"waits for {event}")

        def record_event(self) -> str:
            happened.append("is done")
            return "done"

    @contextmanager
    def on(side: Side) -> Iterator[None]:
        happened.append("begins")
        yield
        happened.append("ends")

    join = torch.cat
    monkeypatch.setattr(low, "background", lambda device: Side())
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch, "cat", lambda *a, **k: (happened.append("joins"), join(*a, **k))[1])
    monkeypatch.setattr(low.linear, "descend", lambda *a, **k: happened.append("descends"))
    layer.pending = [(draw(2, 3, 24), draw(2, 3, 20)), (draw(2, 4, 24), draw(2, 4, 20))]
    layer.unused = "unused"  # type: ignore[assignment]
    layer.descend(torch.zeros(2, 20, 24), torch.tensor(1.0), Sgd(lr=1.0))
    assert happened == ["waits for unused", "begins", "joins", "joins", "descends", "ends", "is done"]
    assert layer._descending is not None
    assert len(layer._descending[1]) == 6  # nothing that it reads is freed before
