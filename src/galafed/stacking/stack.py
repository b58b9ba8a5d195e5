"""The states of one part of many clients, stacked along a first axis, and modules that look through windows at them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from galafed.loops import Bench
from galafed.model import State
from galafed.networks.layers import dropouts
from galafed.stacking import kernels
from galafed.stacking.twins import twin


def alone(bench: Bench, count: int) -> bool:
    """Whether a window at so many clients is the plain module of one, without an axis of clients.

    A processor spends more on handling an axis of length one than it is worth; a GPU replays a recording.
    """
    return count == 1 and bench.device.type == "cpu" and not kernels.usable(bench)


class Stack:
    """Parameters, buffers [count, …] and momentum of one part of `count` clients, at a fixed place in memory."""

    def __init__(self, bench: Bench, part: str, count: int) -> None:
        self._bench = bench
        self._part = part
        self.count = count
        with torch.device("meta"):
            module = bench.network.make(part)
        self._parameters = frozenset(name for name, _ in module.named_parameters())
        self.values: State = {}
        for name, value in module.state_dict().items():
            dtype = bench.dtype if value.is_floating_point() else value.dtype
            self.values[name] = torch.empty(count, *value.shape, dtype=dtype, device=bench.device)
        self.momentum: State = {}
        self.low: State = {}
        self._kernels = kernels.usable(bench)
        self._windows: dict[tuple[int, int], nn.Module] = {}
        for name, layer in self.low_layers(self._twin(module, 1)).items():
            self.values[name] = layer.lay(self.values[name])
            self.low[name] = torch.empty_like(self.values[name], dtype=kernels.LOW)

    def load(self, states: Sequence[State]) -> None:
        """Take the states of the clients, one each."""
        for name, value in self.values.items():
            first = states[0][name]
            if all(state[name] is first for state in states):  # everyone starts from the same model
                value.copy_(first)
            else:
                torch.stack([state[name].to(value.device) for state in states], out=value)
        for name, low in self.low.items():
            low.copy_(self.values[name])

    def start_momentum(self, kept: Sequence[State | None]) -> None:
        """Momentum as the clients kept it, zero where they kept none."""
        for name in self._parameters:
            if name not in self.momentum:
                self.momentum[name] = torch.empty_like(self.values[name])
            self.momentum[name].zero_()
            for k, state in enumerate(kept):
                if state is not None and name in state:
                    self.momentum[name][k].copy_(state[name])

    def states(self) -> list[State]:
        """Copies of the clients' states; they share one copy of the whole."""
        return _apart(self.values, self.count)

    def momenta(self) -> list[State]:
        """Copies of the clients' momentum."""
        return _apart(self.momentum, self.count)

    def window(self, start: int, stop: int) -> nn.Module:
        """A module for the clients from `start` to `stop`; what it changes is changed here."""
        if (start, stop) not in self._windows:
            with torch.device("meta"):
                module = self._seen(stop - start)
            own = self.view(start, stop)
            self._look(module, {name: own(value) for name, value in self.values.items()})
            self._look_low(module, start, stop)
            self._windows[start, stop] = module
        return self._windows[start, stop]

    def view(self, start: int, stop: int) -> Callable[[Tensor], Tensor]:
        """How the window at these clients sees a tensor [count, …] of the stack."""
        place: int | slice = start if alone(self._bench, stop - start) else slice(start, stop)
        return lambda value: value[place]

    def _seen(self, count: int) -> nn.Module:
        """A module for so many clients."""
        if alone(self._bench, count):
            return self._bench.make(self._part)
        return self._twin(self._bench.network.make(self._part), count)

    def _twin(self, module: nn.Module, count: int) -> nn.Module:
        if not self._kernels:
            return twin(module, count)
        from galafed.stacking.fused import fused_twin  # needs triton

        return fused_twin(module, count)

    def low_layers(self, module: nn.Module) -> dict[str, Any]:
        """The layers of a window that keep weights in low precision too, by the weights' name; none without kernels."""
        if not self._kernels:
            return {}
        from galafed.stacking.fused import low_layers  # needs triton

        return dict(low_layers(module))

    def _look_low(self, module: nn.Module, start: int, stop: int) -> None:
        """Give layers that compute in low precision their window at the copies of their weights."""
        for name, layer in self.low_layers(module).items():
            layer.keep(self.low[name][start:stop])

    def _look(self, module: nn.Module, views: Mapping[str, Tensor]) -> None:
        for name, view in views.items():
            owner, _, own = name.rpartition(".")
            place = module.get_submodule(owner)
            if name in self._parameters:
                place._parameters[own] = nn.Parameter(view, requires_grad=False)
            else:
                place._buffers[own] = view
        for layer in dropouts(module):
            layer.key = layer.key.new_zeros(layer.key.shape, device=self._bench.device)


def _apart(values: State, count: int) -> list[State]:
    copies = {name: value.clone(memory_format=torch.contiguous_format) for name, value in values.items()}
    return [{name: value[k] for name, value in copies.items()} for k in range(count)]
