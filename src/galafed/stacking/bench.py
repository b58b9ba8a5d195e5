"""A bench whose modules are twins for a single client: sweeps and evaluation then run on the same kernels as training."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from galafed.loops import Bench
from galafed.stacking.stack import Stack
from galafed.work import States

SWEEP = 4096
"""Images a GPU passes over at once."""


class Alone(nn.Module):
    """A twin for one client that takes and gives what the client's own module would."""

    def __init__(self, stacked: nn.Module) -> None:
        super().__init__()
        self.stacked = stacked

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.stacked(x.unsqueeze(0)).squeeze(0)
        return result


@dataclass(frozen=True)
class FusedBench(Bench):
    """Keeps a stack of one for every part."""

    sweep_batch: int = SWEEP

    def modules(self, states: States) -> dict[str, nn.Module]:
        pool: dict[str, tuple[Stack, nn.Module]] = self._modules  # type: ignore[attr-defined]
        if len(pool) > 8:
            pool.clear()
        for part, state in states.items():
            if part not in pool:
                stack = Stack(self, part, 1)
                pool[part] = (stack, Alone(stack.window(0, 1)))
            pool[part][0].load([state])
        return {part: pool[part][1] for part in states}
