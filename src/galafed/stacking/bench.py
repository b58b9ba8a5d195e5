"""A bench whose modules are twins for one client: sweeps and evaluation then run on the same kernels as training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from galafed.loops import Bench, Images
from galafed.stacking import kernels
from galafed.stacking.kernels.gather import gather, gathers, scale_of
from galafed.stacking.stack import Stack
from galafed.stacking.twins import CannotStack
from galafed.work import Batch, States


@dataclass(frozen=True)
class FusedBench(Bench):
    """Keeps a stack of one for every part."""

    def modules(self, states: States) -> dict[str, nn.Module]:
        pool: dict[str, Stack] = self._stacks  # type: ignore[attr-defined]
        if len(pool) > 8:
            pool.clear()
        try:
            for part in states.keys() - pool.keys():
                pool[part] = _alone(Stack(self, part, 1))
        except CannotStack:
            return super().modules(states)
        for part, state in states.items():
            pool[part].load([state])
        return {part: pool[part].window(0, 1) for part in states}

    def batch(
        self, data: Images, index: Tensor | slice, *, labelled: bool, rows: Mapping[str, Tensor] | None = None
    ) -> Batch:
        if not isinstance(index, Tensor) or not gathers(self.network):
            return super().batch(data, index, labelled=labelled, rows=rows)
        known = data.labels if labelled else None
        order, start = index.view(1, 1, -1), torch.zeros(1, dtype=torch.int64, device=self.device)
        scale = scale_of(self.network, self.device)
        images, labels = gather(data.images, known, order, start, *scale, kernels.LOW)
        own = {name: values[index] for name, values in (rows or {}).items()}
        return Batch(images[0], None if labels is None else labels[0], rows=own)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_stacks", {})


def _alone(stack: Stack) -> Stack:
    """Let the twin for one client take and give what the client's own module would."""
    twin = stack.window(0, 1)
    twin.register_forward_pre_hook(lambda module, inputs: (inputs[0].unsqueeze(0),))
    twin.register_forward_hook(lambda module, inputs, output: output.squeeze(0))
    return stack
