"""A lane: clients that step together, with everything a step needs at a fixed place on the device.

Permutations, dropout keys and mixup's shares are drawn on the CPU before the first step, so a step asks the host for
nothing; on a GPU it is recorded once as a CUDA graph and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
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
from galafed.work import Batch, Fit, Mixed, Rows, States, Step, stream_of

Losses = Callable[[Mapping[str, Tensor], Batch], Tensor]
Remember = Callable[[Mapping[str, Tensor], Batch], States]


Place = tuple[str, str]
"""A module and the stream it is applied to."""


@dataclass(frozen=True)
class Draws:
    """The random numbers of some steps of n clients."""

    orders: Mapping[str, Tensor]
    """Of each stream: numbers of images [steps, n, B]."""
    keys: Mapping[Place, Tensor]
    """Of each place with dropout: [steps, parts of a step, n]."""
    mates: Tensor | None = None
    """Whom mixup mixes each image with, as places in the batch [steps, n, B]."""
    shares: Tensor | None = None
    """Mixup's λ [steps, n]."""


class Lane:
    """Steps of a `Fit` for the clients `start` to `stop` of some stacks, on batches of the same lengths.

    `labelled` are the streams whose labels the losses may see. Of a `brief` lane it is not known whether it will be
    asked for again, and its kernels are there.
    """

    def __init__(
        self,
        work: Fit,
        bench: Bench,
        resident: Resident,
        stacks: Mapping[str, Stack],
        rows: Rows,
        *,
        start: int,
        stop: int,
        lengths: Mapping[str, int],
        labelled: Collection[str],
        capacity: int,
        brief: bool,
    ) -> None:
        self._work = work
        self._labelled = frozenset(labelled)
        self._bench = bench
        self._resident = resident
        self._rows = rows
        self._modules: dict[str, nn.Module] = {name: stack.window(start, stop) for name, stack in stacks.items()}
        self._count = n = stop - start
        device = bench.device
        self._cursor = torch.zeros(1, dtype=torch.int64, device=device)
        self._orders = {
            stream: torch.zeros(capacity, n, length, dtype=torch.int64, device=device)
            for stream, length in lengths.items()
        }
        self._dropouts = {name: found for name, module in self._modules.items() if (found := list(dropouts(module)))}
        parts = len(work.steps)
        self._places = [[p for p in places_of(step) if p[0] in self._dropouts] for step in work.steps]
        self.places = tuple(dict.fromkeys(place for places in self._places for place in places))
        self._keys = {place: torch.zeros(capacity, parts, n, dtype=torch.int64, device=device) for place in self.places}
        mixing = mixes(work)
        self._mates = torch.zeros_like(self._orders[""]) if mixing else None
        self._shares = torch.zeros(capacity, n, dtype=bench.dtype, device=device) if mixing else None
        self._ones = torch.ones(n, dtype=bench.dtype, device=device)
        self.losses = torch.zeros(parts, n, dtype=torch.float64, device=device)
        updated = dict.fromkeys(name for step in work.steps for name in step.update)
        self._rates = {
            factor: torch.zeros((), dtype=bench.dtype, device=device)
            for factor in {work.rate(name) for name in updated}
        }
        self._alone = alone(bench, n)
        self._parameters = [p for module in self._modules.values() for p in module.parameters()]
        self._moving = [[p for name in step.update for p in self._modules[name].parameters()] for step in work.steps]
        self._descents = [self._descent(step, stacks, start, stop) for step in work.steps]
        self._low = [
            (name, layer, stacks[name].momentum[weight][start:stop])
            for name in updated
            for weight, layer in stacks[name].low_layers(self._modules[name]).items()
        ]
        self._losses = [self._losses_of(step) for step in work.steps]
        records = bench.compiles and device.type == "cuda"
        self._recorded = Recorded(self._step, self._settle, device, records=records, brief=brief)

    def run(self, draws: Draws, rate: float) -> float:
        """Take the steps these numbers were drawn for; losses add up. Returns seconds spent on compiling."""
        steps = len(next(iter(draws.orders.values())))
        for stream, order in draws.orders.items():
            self._orders[stream][:steps].copy_(order)
        for place, keys in draws.keys.items():
            self._keys[place][:steps].copy_(keys)
        if draws.mates is not None and draws.shares is not None and self._mates is not None:
            self._mates[:steps].copy_(draws.mates)
            self._shares[:steps].copy_(draws.shares)  # type: ignore[index]
        self._cursor.zero_()
        for factor, value in self._rates.items():
            value.fill_(rate * factor)
        set_modes(self._modules, self._work.modes)
        self._let_move(0)
        return self._recorded.run(steps)

    def close(self) -> None:
        """Let go of what was recorded at once, not when the garbage collector comes by; nothing can be run any more."""
        del self._recorded

    def _step(self) -> None:
        """One batch of every client: every `Step` of the work, each a forward pass, a backward pass and a move."""
        batch = self._batch()
        if self._alone:
            batch = only(batch)
        for number, step in enumerate(self._work.steps):
            self.losses[number].add_(self._move(number, step, batch).detach())
        self._cursor += 1

    def _enter(self, keys: Mapping[Place, Tensor], name: str, stream: str) -> None:
        """Each module has dropout masks of its own for each stream."""
        module = name.partition("|")[0]
        for layer in self._dropouts.get(module, ()):
            layer.key = keys[module, stream]

    def _keys_of(self, number: int) -> dict[Place, Tensor]:
        """The dropout keys [n] of a part of the step, or [] where there is no axis of clients."""
        keys = {p: self._keys[p].index_select(0, self._cursor)[0, number] for p in self._places[number]}
        return {place: key[0] for place, key in keys.items()} if self._alone else keys

    def _batch(self) -> Batch:
        """The batch of the clients' own images, and those of their streams."""
        streams = {name: self._images(name, order) for name, order in self._orders.items() if name}
        if "" in self._orders:
            return replace(self._mixed(self._images("", self._orders[""])), streams=streams)
        nothing = next(iter(streams.values())).images[:, :0]
        return Batch(nothing, streams=streams)

    def _images(self, stream: str, order: Tensor) -> Batch:
        labelled, rows = stream in self._labelled, self._rows.get(stream, {})
        return self._resident.batch(self._bench, order, self._cursor, labelled=labelled, rows=rows)

    def _mixed(self, batch: Batch) -> Batch:
        """The batch after mixup, where there is any."""
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
            enter = partial(self._enter, self._keys_of(number))
            outputs = self._bench.forward(self._modules, step.outputs, batch, enter)
            losses = self._losses[number](outputs, batch)  # [n]
        if step.update:
            # Of a single loss torch knows the gradient to begin with; looking at one that is given takes it longer.
            ones = None if self._alone else self._ones
            gradients = torch.autograd.grad(losses, self._moving[number], ones, allow_unused=True)
            self._descents[number].step(gradients)
            self._descend(step)
        if step.remember is not None:
            self._remember(step.remember, outputs, batch)
        return losses

    @torch.no_grad()
    def _remember(self, values_of: Remember, outputs: Mapping[str, Tensor], batch: Batch) -> None:
        """Put what a step's modules hold from now on in the place of what they held; there is one client."""
        if not self._alone:
            outputs, batch = {name: value[0] for name, value in outputs.items()}, only(batch)
        for name, values in values_of(outputs, batch).items():
            for key, value in values.items():
                held = self._modules[name].get_buffer(key)
                held.copy_(value.view_as(held))

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


def mixes(work: Fit) -> bool:
    """Whether images are mixed: a client's own alone are."""
    return work.mixup > 0 and "" in work.streams


def places_of(step: Step) -> tuple[Place, ...]:
    """Every module with every stream that a step applies it to."""
    paths = step.outputs.values()
    applied = [(name.partition("|")[0], stream_of(path)) for path in paths for name in path if name[0] != "@"]
    return tuple(dict.fromkeys(applied))


def only(batch: Batch) -> Batch:
    """The batch of the one client there is, without the axis of clients."""
    mixed = batch.mixed
    if mixed is not None:
        share = cast(Tensor, mixed.share)[0]
        labels = None if mixed.labels is None else mixed.labels[0]
        mixed = Mixed(cast(float, share), labels, {name: values[0] for name, values in mixed.rows.items()})
    labels = None if batch.labels is None else batch.labels[0]
    rows = {name: values[0] for name, values in batch.rows.items()}
    return Batch(batch.images[0], labels, mixed, rows, {name: only(part) for name, part in batch.streams.items()})


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
