"""How clients train: the settings of every training task of a run, and what follows from them in each round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from galafed.bounds import at_least, fraction, positive

if TYPE_CHECKING:
    from galafed.model import State


@dataclass(frozen=True, kw_only=True)
class Training:
    """How clients train: the optimiser, its schedule over rounds, and how states are averaged."""

    lr: float = 0.01
    """Learning rate of the first round."""
    momentum: float = 0.9
    weight_decay: float = 5e-4
    batch_size: int = 128
    epochs: int = 1
    """Passes over a client's data in each phase of a round."""
    schedule: Literal["inverse", "exponential", "cosine", "constant"] = "inverse"
    """inverse: lr (1 + 10 t/T)^-decay, the paper's for digits; exponential: lr decay^t, its for Office; cosine: from
    lr along half a wave down to lr decay."""
    decay: float = 0.75
    persistent_momentum: bool = False
    """Carry each client's momentum from phase to phase and round to round, as FACT's code does, or start anew."""
    extractor_rate: float = 1.0
    """Factor on the learning rate of extractors: below 1 for pretrained ones, which have less to learn."""
    mixup: float = 0.0
    """Mix pairs of labelled images and their labels with a share drawn from Beta(mixup, mixup); 0 mixes none."""
    bn_variance: Literal["linear", "mixture"] = "linear"
    """Average running variances like parameters, or as the variance of the pooled data."""

    def __post_init__(self) -> None:
        positive("lr", self.lr)
        fraction("momentum", self.momentum)
        at_least("weight_decay", self.weight_decay, 0)
        at_least("batch_size", self.batch_size, 2)
        at_least("epochs", self.epochs, 1)
        at_least("mixup", self.mixup, 0)
        positive("decay", self.decay)
        positive("extractor_rate", self.extractor_rate)

    def rate(self, number: int, rounds: int) -> float:
        """The learning rate of round `number` (from 0) of `rounds`."""
        if self.schedule == "inverse":
            return self.lr * math.pow(1 + 10 * number / rounds, -self.decay)
        if self.schedule == "cosine":
            return self.lr * (self.decay + (1 - self.decay) * (1 + math.cos(math.pi * number / rounds)) / 2)
        return self.lr * math.pow(self.decay, number) if self.schedule == "exponential" else self.lr

    def sgd(self, number: int, rounds: int) -> dict[str, Any]:
        """The arguments of a training task in round `number`."""
        return {
            "lr": self.rate(number, rounds),
            "momentum": self.momentum,
            "weight_decay": self.weight_decay,
            "persistent": self.persistent_momentum,
            "extractor_rate": self.extractor_rate,
            "batch_size": self.batch_size,
            "epochs": self.epochs,
        }

    def mean(self, states: Mapping[str, State], weights: Mapping[str, float]) -> State:
        """The weighted mean of states, with this configuration's rule for running variances."""
        from galafed.model import weighted_mean

        return weighted_mean(states, weights, variance=self.bn_variance)
