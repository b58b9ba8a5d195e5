"""A lane: clients that step together, with everything a step needs at a fixed place on the device.

Permutations, dropout keys and mixup's shares are drawn on the CPU before the first step, so a step asks the host for
nothing; on a GPU it is recorded once as a CUDA graph and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from galafed.loops import Bench, set_modes
from galafed.networks.layers import dropouts
from galafed.stacking import kernels
from galafed.stacking.descent import Descent
from galafed.stacking.graphs import Recorded
from galafed.stacking.resident import Resident
from galafed.stacking.stack import Stack, alone
from galafed.work import Batch, Fit, Mixed, Step

Losses = Callable[[Mapping[str, Tensor], Batch], Tensor]


class Draws:
    """The random numbers of some steps of n clients, on the device."""

    def __init__(self, order: Tensor, keys: Mapping[str, Tensor], mates: Tensor | None, shares: Tensor | None) -> None:
        self.order = order  # [steps, n, B] numbers of images
        self.keys = keys  # of each module with dropout: [steps, parts of a step, n]
        self.mates = mates  # [steps, n, B] whom mixup mixes each image with, as places in the batch
        self.shares = shares  # [steps, n] mixup's λ


class Lane:
    """Steps of a `Fit` for the clients `start` to `stop` of some stacks, on batches of one length."""

    def __init__(
        self,
        work: Fit,
        bench: Bench,
        resident: Resident,
        stacks: Mapping[str, Stack],
        rows: Mapping[str, Tensor],
        *,
        start: int,
        stop: int,
        length: int,
        capacity: int,
    ) -> None:
        self._work = work
        self._bench = bench
        self._resident = resident
        self._rows = dict(rows)
        self._modules: dict[str, nn.Module] = {name: stack.window(start, stop) for name, stack in stacks.items()}
        self._count = n = stop - start
        device = bench.device
        self._cursor = torch.zeros(1, dtype=torch.int64, device=device)
        self._order = torch.zeros(capacity, n, length, dtype=torch.int64, device=device)
        random = [name for name, module in self._modules.items() if any(dropouts(module))]
        parts = len(work.steps)
        self._keys = {name: torch.zeros(capacity, parts, n, dtype=torch.int64, device=device) for name in random}
        self._mates = torch.zeros_like(self._order) if work.mixup else None
        self._shares = torch.zeros(capacity, n, dtype=bench.dtype, device=device) if work.mixup else None
        self._ones = torch.ones(n, dtype=bench.dtype, device=device)
        self.losses = torch.zeros(parts, n, dtype=torch.float64, device=device)
        updated = dict.fromkeys(name for step in work.steps for name in step.update)
        self._rates = {
            factor: torch.zeros((), dtype=bench.dtype, device=device)
            for factor in {work.rate(name) for name in updated}
        }
        self._alone = alone(bench, n)
        self._dropouts = {name: list(dropouts(self._modules[name])) for name in random}
        self._parameters = [p for module in self._modules.values() for p in module.parameters()]
        self._moving = [[p for name in step.update for p in self._modules[name].parameters()] for step in work.steps]
        self._descents = [self._descent(step, stacks, start, stop) for step in work.steps]
        self._low = [
            (name, layer, stacks[name].momentum[f"{path}.weight"][start:stop])
            for name in updated
            for path, layer in stacks[name].low_layers(self._modules[name]).items()
        ]
        self._losses = [self._losses_of(step) for step in work.steps]
        self._recorded = Recorded(self._step, self._settle, device, records=bench.compiles and device.type == "cuda")

    def run(self, draws: Draws, rate: float) -> float:
        """Take the steps these numbers were drawn for; losses add up. Returns seconds spent on compiling."""
        steps = len(draws.order)
        self._order[:steps].copy_(draws.order)
        for name, keys in draws.keys.items():
            self._keys[name][:steps].copy_(keys)
        if draws.mates is not None and draws.shares is not None and self._mates is not None:
            self._mates[:steps].copy_(draws.mates)
            self._shares[:steps].copy_(draws.shares)  # type: ignore[index]
        self._cursor.zero_()
        for factor, value in self._rates.items():
            value.fill_(rate * factor)
        set_modes(self._modules, self._work.modes)
        self._let_move(0)
        return self._recorded.run(steps)

    def _step(self) -> None:
        """One batch of every client: every `Step` of the work, each a forward pass, a backward pass and a move."""
        batch = self._batch()
        if self._alone:
            batch = only(batch)
        for number, step in enumerate(self._work.steps):
            for name, keys in self._keys.items():
                key = keys.index_select(0, self._cursor)[0, number]
                for layer in self._dropouts[name]:
                    layer.key = key[0] if self._alone else key
            self.losses[number].add_(self._move(number, step, batch).detach())
        self._cursor += 1

    def _batch(self) -> Batch:
        labelled, rows = self._work.labelled, self._rows
        batch = self._resident.batch(self._bench, self._order, self._cursor, labelled=labelled, rows=rows)
        if self._mates is None or self._shares is None or (batch.labels is None and not batch.rows):
            return batch
        mates = self._mates.index_select(0, self._cursor)[0]
        share = self._shares.index_select(0, self._cursor)[0]  # [n]
        others = torch.stack([images[order] for images, order in zip(batch.images, mates, strict=True)])
        λ = share.view(-1, 1, 1, 1, 1)
        images = batch.images * λ + others * (1 - λ)
        labels = None if batch.labels is None else batch.labels.gather(1, mates)
        theirs = {
            name: torch.stack([own[order] for own, order in zip(values, mates, strict=True)])
            for name, values in batch.rows.items()
        }
        return Batch(images, batch.labels, Mixed(cast(float, share), labels, theirs), batch.rows)

    def _move(self, number: int, step: Step, batch: Batch) -> Tensor:
        if len(self._moving) > 1:
            self._let_move(number)
        with torch.set_grad_enabled(bool(step.update)):
            losses = self._losses[number](self._bench.forward(self._modules, step.outputs, batch), batch)  # [n]
        if step.update:
            # Of a single loss torch knows the gradient to begin with; looking at one that is given takes it longer.
            ones = None if self._alone else self._ones
            gradients = torch.autograd.grad(losses, self._moving[number], ones, allow_unused=True)
            self._descents[number].step(gradients)
            self._descend(step)
        return losses

    def _let_move(self, number: int) -> None:
        """Gradients for the parameters that move in a step, and for no others; windows are shared by many lanes."""
        for parameter in self._parameters:
            parameter.requires_grad_(False)
        for parameter in self._moving[number]:
            parameter.requires_grad_(True)

    def _losses_of(self, step: Step) -> Losses:
        """A function from outputs and batch to the losses of all clients: a kernel if there is one for the loss."""
        if self._alone:
            return step.loss
        if kernels.usable(self._bench) and not self._work.mixup:
            from galafed.stacking.kernels.losses import MOST_CLASSES, twin_of  # needs triton

            if self._bench.network.classes <= MOST_CLASSES and (found := twin_of(step)):
                return found
        return partial(losses_of, step)

    def _descend(self, step: Step) -> None:
        """The step of the layers whose gradients are formed in the same pass."""
        for name, layer, momentum in self._low:
            if name in step.update and layer.pending:
                layer.descend(momentum, self._rates[self._work.rate(name)], self._work.optimiser)

    def _settle(self) -> None:
        for _, layer, _ in self._low:
            layer.settle()

    def _descent(self, step: Step, stacks: Mapping[str, Stack], start: int, stop: int) -> Descent:
        """SGD for the modules a step moves, with the momentum of these clients."""
        descent = Descent(self._work.optimiser, self._rates)
        for name in step.update:
            own = stacks[name].view(start, stop)
            for key, parameter in self._modules[name].named_parameters():
                descent.add(parameter, own(stacks[name].momentum[key]), self._work.rate(name))
        return descent


def only(batch: Batch) -> Batch:
    """The batch of the one client there is, without the axis of clients."""
    mixed = batch.mixed
    if mixed is not None:
        share = cast(Tensor, mixed.share)[0]
        labels = None if mixed.labels is None else mixed.labels[0]
        mixed = Mixed(cast(float, share), labels, {name: values[0] for name, values in mixed.rows.items()})
    labels = None if batch.labels is None else batch.labels[0]
    return Batch(batch.images[0], labels, mixed, {name: values[0] for name, values in batch.rows.items()})


def losses_of(step: Step, outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
    """The loss of every client [n]: the step's own loss, told nothing of the others."""
    given: dict[str, Any] = {"images": batch.images, "rows": dict(batch.rows)}
    if batch.labels is not None:
        given["labels"] = batch.labels
    if batch.mixed is not None:
        given |= {"share": batch.mixed.share, "their rows": dict(batch.mixed.rows)}
        if batch.mixed.labels is not None:
            given["their labels"] = batch.mixed.labels

    def loss(outputs: Mapping[str, Tensor], given: Mapping[str, Any]) -> Tensor:
        mixed = Mixed(given["share"], given.get("their labels"), given["their rows"]) if "share" in given else None
        return step.loss(outputs, Batch(given["images"], given.get("labels"), mixed, given["rows"]))

    if len(batch.images) == 1:  # without the machinery
        return step.loss({name: value[0] for name, value in outputs.items()}, only(batch)).unsqueeze(0)
    result: Tensor = torch.func.vmap(loss)(dict(outputs), given)
    return result
