"""What a network is: an extractor G and a predictor F that can be made, described and initialised from a seed."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor, nn

from galafed.model import Model, Schema, State, kind_of, statistics
from galafed.networks.layers import last_layer
from galafed.networks.parts.base import parts
from galafed.registry import Registry
from galafed.runs.seeding import seed_for

OWN_PARTS = ("extractor", "predictor")

DRAWING = threading.Lock()
"""Modules draw their first numbers from torch's one global generator: only one thread at a time may have its way."""


class Network(ABC):
    """A classifier h = F∘G for images [n, 3, size, size] and `classes` classes; parts are made by kind."""

    name: ClassVar[str]
    summary: ClassVar[str]
    mean: ClassVar[float | tuple[float, float, float]] = 0.5
    deviation: ClassVar[float | tuple[float, float, float]] = 0.5
    """Of pixel values in [0, 1]: a number for all channels, or one each for red, green and blue."""
    feature_size: int

    def __init__(self, *, classes: int, image_size: int) -> None:
        self.classes = classes
        self.image_size = image_size

    @abstractmethod
    def extractor(self) -> nn.Module:
        """G: images [n, 3, size, size] -> features [n, feature_size]."""

    @abstractmethod
    def predictor(self) -> nn.Module:
        """F: features [n, feature_size] -> logits [n, classes]."""

    @property
    def hidden_size(self) -> int:
        """How many numbers enter the predictor's last layer."""
        with torch.device("meta"):
            weight = last_layer(self.predictor()).get_parameter("weight")
        return weight.shape[1]

    def make(self, part: str) -> nn.Module:
        """A fresh module for a part; "predictor:a" and "predictor:b" are two modules of the kind "predictor".

        Kinds besides a network's own are found in `galafed.networks.parts`.
        """
        if (kind := kind_of(part)) in OWN_PARTS:
            return {"extractor": self.extractor, "predictor": self.predictor}[kind]()
        return parts.get(kind)(self, part)

    def prepare(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        """uint8 [n, h, w, 3] -> normalised [n, 3, h, w]: x / 255 shifted by `mean`, divided by `deviation`."""
        pixels = images.permute(0, 3, 1, 2).to(dtype)
        if isinstance(self.mean, float) and isinstance(self.deviation, float):
            return pixels.div_(255 * self.deviation).sub_(self.mean / self.deviation)
        for channel, (mean, deviation) in enumerate(zip(channels(self.mean), channels(self.deviation), strict=True)):
            pixels[:, channel].div_(255 * deviation).sub_(mean / deviation)
        return pixels

    @lru_cache(maxsize=64)  # noqa: B019 - a process holds one or two networks, for its whole life
    def schema(self, part: str) -> Schema:
        """Names, shapes and kinds of number of a part's state; "statistics:a" are a predictor's BatchNorm buffers."""
        with torch.device("meta"):
            module = self.make(part.replace("statistics", "predictor", 1))
        state = dict(module.state_dict())
        if kind_of(part) == "statistics":
            state = statistics(state)
        return {name: (tuple(value.shape), value.is_floating_point()) for name, value in state.items()}

    def pretrained(self, part: str) -> State | None:
        """The state a part starts from where it was trained before; None where it starts from random numbers."""
        return None

    def initial(self, seed: int, dtype: torch.dtype = torch.float32) -> Model:
        """The model every client starts from, a function of the seed and, of a pretrained part, of its file alone."""
        return Model({part: self.fresh(part, seed, dtype) for part in OWN_PARTS})

    def fresh(self, part: str, seed: int, dtype: torch.dtype | None = None) -> State:
        """The state a part starts from: pretrained, or drawn from a stream named by the seed and the part."""
        dtype = dtype or torch.float32
        state = self.pretrained(kind_of(part))
        if state is not None:
            return {n: v.to(dtype) if v.is_floating_point() else v for n, v in state.items()}
        with DRAWING, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_for(seed, "initial", part))  # noqa: TID251 - inside the fork, and undone with it
            module = self.make(part).to(dtype)
        return {name: value.clone() for name, value in module.state_dict().items()}


def channels(value: float | tuple[float, float, float]) -> tuple[float, float, float]:
    """A number for each of the three channels."""
    return (value, value, value) if isinstance(value, float) else value


networks: Registry[type[Network]] = Registry("network", "galafed.networks")
