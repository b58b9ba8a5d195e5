"""The networks are those of the paper, start from a seed alone, and drop out by key alone."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from galafed.errors import ConfigError
from galafed.model import digest, schema_of
from galafed.networks import names
from galafed.networks.base import Network, networks
from galafed.networks.digit_cnn import DigitCnn
from galafed.networks.layers import Dropout, entering, last_layer, set_dropout_key
from galafed.networks.m3sda_cnn import M3sdaCnn
from galafed.networks.small_cnn import SmallCnn
from galafed.stacking.twins import twin

PAPER = DigitCnn(classes=10, image_size=32)
SMALL = SmallCnn(classes=3, image_size=8)


def on_meta(network: Network, part: str) -> torch.nn.Module:
    """A part without memory behind it."""
    with torch.device("meta"):
        return network.make(part)


def parameters(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def floats(module: torch.nn.Module) -> int:
    return sum(value.numel() for value in module.state_dict().values() if value.is_floating_point())


# digit_cnn


def test_digit_cnn_has_the_papers_number_of_parameters() -> None:
    extractor, predictor = on_meta(PAPER, "extractor"), on_meta(PAPER, "predictor")
    assert parameters(extractor) + parameters(predictor) == 25_693_726  # 25.7 M
    assert floats(extractor) == 210_560
    assert floats(predictor) == 25_489_894
    assert 4 * floats(extractor) / 1e6 == pytest.approx(0.84, abs=0.005)
    assert 4 * floats(predictor) / 1e6 == pytest.approx(101.96, abs=0.005)


def test_digit_cnn_has_the_papers_layers() -> None:
    sizes = []

    def record(module: torch.nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        sizes.append((type(module).__name__, tuple(output.shape[1:])))

    extractor, predictor = on_meta(PAPER, "extractor"), on_meta(PAPER, "predictor")
    for layer in (*extractor.children(), *predictor.children()):
        layer.register_forward_hook(record)
    predictor(extractor(torch.empty(2, 3, 32, 32, device="meta")))
    assert sizes == [
        ("Conv2d", (64, 32, 32)),
        ("BatchNorm2d", (64, 32, 32)),
        ("ReLU", (64, 32, 32)),
        ("MaxPool2d", (64, 16, 16)),
        ("Conv2d", (128, 16, 16)),
        ("BatchNorm2d", (128, 16, 16)),
        ("ReLU", (128, 16, 16)),
        ("MaxPool2d", (128, 8, 8)),
        ("Flatten", (8192,)),
        ("Dropout", (8192,)),
        ("Linear", (3072,)),
        ("BatchNorm1d", (3072,)),
        ("ReLU", (3072,)),
        ("Dropout", (3072,)),
        ("Linear", (100,)),
        ("BatchNorm1d", (100,)),
        ("ReLU", (100,)),
        ("Dropout", (100,)),
        ("Linear", (10,)),
    ]


def test_digit_cnn_has_the_papers_kernels() -> None:
    extractor, predictor = on_meta(PAPER, "extractor"), on_meta(PAPER, "predictor")
    convolutions = [layer for layer in extractor if isinstance(layer, torch.nn.Conv2d)]
    assert [(c.kernel_size, c.padding, c.stride) for c in convolutions] == [((5, 5), (2, 2), (1, 1))] * 2
    pools = [layer for layer in extractor if isinstance(layer, torch.nn.MaxPool2d)]
    assert [(p.kernel_size, p.stride, p.padding) for p in pools] == [(3, 2, 1)] * 2
    drops = [layer for layer in predictor if isinstance(layer, Dropout)]
    assert [drop.p for drop in drops] == [0.5] * 3
    assert len({drop.layer for drop in drops}) == 3


# m3sda_cnn


def test_m3sda_cnn_has_its_papers_layers() -> None:
    network = M3sdaCnn(classes=10, image_size=32)
    extractor, predictor = on_meta(network, "extractor"), on_meta(network, "predictor")
    convolutions = (3 * 64 + 64 * 64 + 64 * 128) * 25 + 64 + 64 + 128
    full = 8192 * 3072 + 3072 + 3072 * 2048 + 2048
    norms = 2 * (64 + 64 + 128 + 3072 + 2048)
    assert parameters(extractor) == convolutions + full + norms
    assert parameters(predictor) == 2048 * 10 + 10
    assert [type(layer).__name__ for layer in predictor] == ["Linear"]
    assert [drop.p for drop in extractor if isinstance(drop, Dropout)] == [0.5]


# Every network


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize(("size", "classes"), [(8, 3), (15, 7), (16, 10), (32, 10)])
def test_feature_size_and_logits_are_as_announced(name: str, size: int, classes: int) -> None:
    network = networks.get(name)(classes=classes, image_size=size)
    features = on_meta(network, "extractor")(torch.empty(2, 3, size, size, device="meta"))
    assert tuple(features.shape) == (2, network.feature_size)
    logits = on_meta(network, "predictor")(features)
    assert tuple(logits.shape) == (2, classes)


@pytest.mark.parametrize("name", names())
def test_gradient_reaches_every_parameter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks.get(name), "pretrained", lambda network, part: None)  # needs a file of weights
    network = networks.get(name)(classes=3, image_size=32)
    model = network.initial(0)
    modules = [network.make(part) for part in ("extractor", "predictor")]
    for module, state in zip(modules, (model.extractor, model.predictor), strict=True):
        module.load_state_dict(state)
        set_dropout_key(module, 7)
    features = modules[0](torch.randn(16, 3, 32, 32, generator=torch.Generator().manual_seed(0)))
    torch.nn.functional.cross_entropy(modules[1](features), torch.arange(16) % 3).backward()
    for module in modules:
        for parameter_name, parameter in module.named_parameters():
            assert parameter.grad is not None, parameter_name
            assert bool((parameter.grad != 0).any()), parameter_name


@pytest.mark.parametrize("network", [PAPER, SMALL])
def test_features_of_digits_are_not_negative(network: Network) -> None:
    side = network.image_size
    features = network.make("extractor")(torch.randn(4, 3, side, side, generator=torch.Generator().manual_seed(0)))
    assert bool((features >= 0).all())


@pytest.mark.parametrize("name", names())
def test_schema_describes_the_states(name: str) -> None:
    network = networks.get(name)(classes=3, image_size=8)
    for part in ("extractor", "predictor", "predictor:a"):
        assert network.schema(part) == schema_of(dict(on_meta(network, part).state_dict()))
    buffers = {n for n, _ in on_meta(network, "predictor").named_buffers() if not n.endswith("key")}
    assert set(network.schema("statistics:a")) == buffers
    assert network.schema("statistics:a").items() <= network.schema("predictor").items()


def test_dropout_key_is_no_part_of_the_state() -> None:
    assert not [name for name in SMALL.schema("predictor") if "key" in name or "drop" in name]


def test_unknown_part_is_an_error() -> None:
    with pytest.raises(ConfigError, match="part 'teacher' is not known"):
        SMALL.make("teacher")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_images_are_scaled_to_minus_one_to_one_channels_first(dtype: torch.dtype) -> None:
    images = torch.zeros(1, 2, 2, 3, dtype=torch.uint8)
    images[0, 0, 1] = torch.tensor([255, 0, 51], dtype=torch.uint8)
    before = images.clone()
    prepared = SMALL.prepare(images, dtype)
    assert prepared.dtype == dtype
    assert tuple(prepared.shape) == (1, 3, 2, 2)
    torch.testing.assert_close(prepared[0, :, 0, 1], torch.tensor([1.0, -1.0, -0.6], dtype=dtype))
    assert bool((prepared[0, :, 1, 0] == -1).all())
    assert torch.equal(images, before)


# Initial model


def test_initial_model_is_a_function_of_the_seed_alone() -> None:
    first = SMALL.initial(5).digest()
    torch.rand(3)  # the global generator moves on
    assert SMALL.initial(5).digest() == first
    assert SMALL.initial(6).digest() != first


def test_initial_model_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    SMALL.initial(5)
    assert torch.equal(torch.get_rng_state(), before)


def test_initial_model_fits_the_schema_in_the_precision_asked_for() -> None:
    model = SMALL.initial(1, torch.float64)
    for part, state in model.parts.items():
        assert schema_of(state) == SMALL.schema(part)
        assert {v.dtype for v in state.values() if v.is_floating_point()} == {torch.float64}


def test_initial_parts_share_no_memory() -> None:
    one, two = SMALL.initial(1), SMALL.initial(1)
    before = two.digest()
    one.extractor["conv1.weight"].zero_()
    assert two.digest() == before


# Dropout

COUNT = 200_000
KEYS = (0, 1, 2, 12345, 2**31, 2**40 + 1, 2**62 - 1, 2**63 - 1)


def mask(key: int, *, p: float = 0.5, layer: int = 1, shape: tuple[int, ...] = (COUNT,)) -> torch.Tensor:
    """Which entries survive."""
    drop = Dropout(p, layer=layer)
    set_dropout_key(drop, key)
    return drop(torch.ones(shape)) != 0


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]).double())[0, 1])


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("layer", [1, 3])
def test_dropout_drops_at_its_rate(p: float, key: int, layer: int) -> None:
    rate = 1 - mask(key, p=p, layer=layer).double().mean().item()
    assert rate == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / COUNT))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_is_unbiased_and_keeps_or_scales_each_entry(p: float) -> None:
    x = torch.rand(400, 500, generator=torch.Generator().manual_seed(0)) + 0.5
    drop = Dropout(p, layer=1)
    set_dropout_key(drop, 99)
    y = drop(x)
    kept = y != 0
    torch.testing.assert_close(y[kept], x[kept] / (1 - p))
    assert y.mean().item() == pytest.approx(x.mean().item(), rel=5 * math.sqrt(p / (1 - p) / x.numel()) * 1.1)


def test_every_position_is_dropped_at_the_rate_over_keys() -> None:
    share = torch.stack([mask(key * 7919, shape=(64,)) for key in range(2000)]).double().mean(dim=0)
    assert float((share - 0.5).abs().max()) < 5 * math.sqrt(0.25 / 2000)


def test_mask_depends_on_key_layer_and_position_alone() -> None:
    expected = mask(42, shape=(30, 40))
    torch.rand(10)  # other draws in between
    mask(43)
    assert torch.equal(mask(42, shape=(30, 40)), expected)
    assert torch.equal(mask(42, shape=(1200,)).view(30, 40), expected)  # not on the shape
    assert torch.equal(mask(42, shape=(50, 40))[:30], expected)  # nor on what follows
    drop = Dropout(0.5, layer=1).double()
    set_dropout_key(drop, 42)
    assert torch.equal(drop(torch.full((30, 40), -3.0, dtype=torch.float64)) != 0, expected)  # nor on values


def test_masks_of_different_keys_are_uncorrelated() -> None:
    masks = torch.stack([mask(key) for key in (*KEYS[:-1], *range(3, 12))]).double()
    found = torch.corrcoef(masks) - torch.eye(len(masks), dtype=torch.float64)
    assert float(found.abs().max()) < 6 / math.sqrt(COUNT)


def test_masks_of_different_layers_are_uncorrelated() -> None:
    for key in KEYS:
        layers = torch.stack([mask(key, layer=layer) for layer in (1, 2, 3)]).double()
        assert float((torch.corrcoef(layers) - torch.eye(3, dtype=torch.float64)).abs().max()) < 6 / math.sqrt(COUNT)


@pytest.mark.parametrize("distance", [1, 2, 64, 100, 1024, 8192])
def test_neighbouring_positions_are_uncorrelated(distance: int) -> None:
    drawn = mask(77)
    assert abs(correlation(drawn[:-distance], drawn[distance:])) < 6 / math.sqrt(COUNT)


def test_dropout_is_off_in_eval_mode_and_at_rate_zero() -> None:
    x = torch.rand(50)
    assert torch.equal(Dropout(0.5, layer=1).eval()(x), x)
    assert torch.equal(Dropout(0.0, layer=1)(x), x)


def test_gradient_flows_through_what_is_kept() -> None:
    drop = Dropout(0.5, layer=1)
    set_dropout_key(drop, 5)
    x = torch.ones(1000, requires_grad=True)
    y = drop(x)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())
    assert 0 < int((x.grad == 0).sum()) < 1000


def test_key_reaches_every_dropout_layer_of_a_module() -> None:
    predictor = torch.nn.Sequential(
        *(Dropout(0.5, layer=n) for n in (1, 2)), torch.nn.Sequential(Dropout(0.5, layer=3))
    )
    set_dropout_key(predictor, 2**62)
    assert [int(d.key) for d in predictor.modules() if isinstance(d, Dropout)] == [2**62] * 3


def test_initial_weights_differ_between_parts_and_networks() -> None:
    model = SMALL.initial(3)
    assert digest({"p": model.extractor}) != digest({"p": model.predictor})
    assert SmallCnn(classes=4, image_size=8).initial(3).digest() != model.digest()


def test_batchnorm_on_the_logits_adds_a_layer_of_ten() -> None:
    plain, normed = (networks.get(name)(classes=10, image_size=32) for name in ("digit_cnn", "digit_cnn_bn"))
    extra = normed.schema("predictor").keys() - plain.schema("predictor").keys()
    assert {name.split(".")[0] for name in extra} == {"norm3"}
    assert normed.schema("predictor")["norm3.weight"] == ((10,), True)
    assert normed.schema("extractor") == plain.schema("extractor")


def test_the_softmax_of_a_softmax_keeps_the_loss_above_its_floor() -> None:
    """-log(e / (e + 9)) = 1.461 is the best that cross-entropy of probabilities can reach."""
    head = networks.get("digit_cnn_softmax")(classes=10, image_size=8).predictor()
    with torch.no_grad():
        head.full3.bias.copy_(torch.tensor([100.0] + [0.0] * 9))
        given = head(torch.zeros(4, 512))
        asked = head.eval()(torch.zeros(4, 512))
    assert torch.allclose(given.sum(dim=-1), torch.ones(4))
    loss = torch.nn.functional.cross_entropy(given, torch.zeros(4, dtype=torch.int64))
    assert float(loss) == pytest.approx(1.4612, abs=1e-4)
    assert torch.allclose(asked.softmax(dim=-1), given)  # who asks for an answer takes the softmax once


@pytest.mark.parametrize("name", names())
def test_what_enters_the_last_layer_of_a_predictor_alone_and_of_its_twin_for_many(name: str) -> None:
    network = networks.get(name)(classes=3, image_size=32)
    predictor = network.predictor().eval()
    assert isinstance(predictor, nn.Sequential)
    with torch.no_grad():
        for value in (*predictor.parameters(), *predictor.buffers()):
            if value.is_floating_point():
                value.uniform_(0.1, 1, generator=torch.Generator().manual_seed(value.numel()))
    x = torch.rand(4, network.feature_size, generator=torch.Generator().manual_seed(1))
    layer = last_layer(predictor)
    assert isinstance(layer, nn.Linear)
    found = entering(layer, predictor, x)
    assert found.shape == (4, network.hidden_size)
    assert not layer._forward_pre_hooks
    after = list(predictor)[list(predictor).index(layer) + 1 :]  # probabilities, or a norm
    assert torch.equal(predictor(x), nn.Sequential(*after)(layer(found)))

    many = twin(predictor, 2).eval()
    many.load_state_dict({key: torch.stack([value, value]) for key, value in predictor.state_dict().items()})
    both = entering(last_layer(many), many, torch.stack([x, x]))
    torch.testing.assert_close(both, torch.stack([found, found]))
