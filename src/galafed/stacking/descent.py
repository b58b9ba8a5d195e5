"""Stochastic gradient descent in one call for all parameters of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from galafed.work import Sgd


@dataclass
class Moved:
    """Parameters with one learning rate, their momentum, and which of a step's gradients are theirs."""

    parameters: list[Tensor] = field(default_factory=list)
    momenta: list[Tensor] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


class Descent:
    """m ← μ m + g + λ w, w ← w - η m, at fixed places in memory.

    `torch.optim.SGD(fused=True)` makes the same call; what it looks up before costs a processor more than the call.
    """

    def __init__(self, settings: Sgd, rates: Mapping[float, Tensor]) -> None:
        self._settings = settings
        self._rates = rates  # η of each factor
        self._groups: dict[float, Moved] = {}
        self._count = 0

    def add(self, parameter: Tensor, momentum: Tensor, factor: float) -> None:
        """The next parameter, in the order its gradients will come in."""
        group = self._groups.setdefault(factor, Moved())
        group.parameters.append(parameter)
        group.momenta.append(momentum)
        group.places.append(self._count)
        self._count += 1

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """Move every parameter that has a gradient."""
        mine = self._settings
        for factor, group in self._groups.items():
            found = [gradients[place] for place in group.places]
            parameters, momenta = group.parameters, group.momenta
            if any(gradient is None for gradient in found):
                there = [k for k, gradient in enumerate(found) if gradient is not None]
                parameters, momenta = [parameters[k] for k in there], [momenta[k] for k in there]
            # The call reads memory as it lies, and some gradients come transposed.
            lying = [g if g.is_contiguous() else g.contiguous() for g in found if g is not None]
            if not lying:
                continue
            torch._fused_sgd_(
                parameters, lying, momenta if mine.momentum else [],
                weight_decay=mine.weight_decay, momentum=mine.momentum, lr=self._rates[factor],
                dampening=0.0, nesterov=False, maximize=False, is_first_step=False,
            )  # fmt: skip
