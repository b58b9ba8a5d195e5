"""The two loops: how one client runs a `Fit` or a `Sweep`. The reference every engine is held against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from galafed.model import State
from galafed.networks.base import Network
from galafed.networks.layers import dropouts, set_dropout_key
from galafed.runs.seeding import array_generator, generator, seed_for
from galafed.work import Batch, Fit, Mixed, Mode, Path, States, Step, Sweep


NOT_FINITE = "its loss is not a finite number; lower the learning rate or look at its images and labels"


class WorkError(RuntimeError):
    """Client work that cannot be done; the message says why."""


@dataclass(frozen=True)
class Images:
    """A client's images uint8 [n, h, w, 3] and, at a labelled client, their class numbers int64 [n]."""

    images: Tensor
    labels: Tensor | None = None

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: torch.device) -> Images:
        """The same data on another device."""
        return Images(self.images.to(device), None if self.labels is None else self.labels.to(device))


@dataclass(frozen=True)
class Bench:
    """Where work is done: a network, a device, a precision, and one reusable module for each part."""

    network: Network
    device: torch.device
    dtype: torch.dtype = torch.float32
    products: torch.dtype | None = None
    """A lower precision for products and convolutions; states, statistics and losses keep `dtype`."""
    sweep_batch: int = 512
    """How many images a sweep passes over at once."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_modules", {})

    def modules(self, states: States) -> dict[str, nn.Module]:
        """A module for each part, holding a copy of its state."""
        pool: dict[str, nn.Module] = self._modules  # type: ignore[attr-defined]
        # More than a handful of parts (one head per client) would keep as many modules alive for nothing.
        if len(pool) > 8:
            pool.clear()
        for part, state in states.items():
            if part not in pool:
                with torch.device("meta"):
                    module = self.network.make(part)
                pool[part] = module.to_empty(device=self.device).to(self.dtype)
            pool[part].load_state_dict(state)
        return {part: pool[part] for part in states}

    def arithmetic(self) -> AbstractContextManager[object]:
        """The precision in which forward passes and losses are computed."""
        return torch.autocast(self.device.type, self.products) if self.products else nullcontext()

    def batch(self, data: Images, index: Tensor | slice, *, labelled: bool) -> Batch:
        """The images of an index, normalised on the device; labels only where the task may see them."""
        images = self.network.prepare(data.images[index], self.dtype)
        return Batch(images, data.labels[index] if labelled and data.labels is not None else None)


@dataclass(frozen=True)
class Fitted:
    """States after a fit, momentum by module, and the mean of each step's loss."""

    states: dict[str, State]
    momentum: dict[str, State]
    losses: tuple[float, ...]


def fit(
    work: Fit, bench: Bench, data: Images, states: States, *, stream: tuple[object, ...], momentum: States
) -> Fitted:
    """Run a `Fit`; `stream` names the random stream of the shuffles and dropout masks."""
    require(work, data)
    modules = bench.modules(states)
    set_modes(modules, work.modes)
    updated = dict.fromkeys(module for step in work.steps for module in step.update)
    optimisers = {name: _optimiser(work, modules[name], momentum.get(name)) for name in updated}
    totals = torch.zeros(len(work.steps), dtype=torch.float64, device=bench.device)
    count = 0
    for index in shuffled_batches(len(data), work.batch_size, work.epochs, stream):
        batch = bench.batch(data, index.to(bench.device), labelled=work.labelled)
        if work.mixup and batch.labels is not None:
            batch = mixed(batch, batch.labels, work.mixup, (*stream, count, "mixup"))
        for number, step in enumerate(work.steps):
            with bench.arithmetic():
                totals[number] += _step(step, modules, optimisers, batch, (*stream, count, number))
        count += 1
    losses = tuple((totals / max(count, 1)).tolist())
    if not all(map(_finite, losses)):
        raise WorkError(NOT_FINITE)
    return Fitted(
        {name: copy_of(module.state_dict()) for name, module in modules.items()},
        {name: _momentum(modules[name], optimiser) for name, optimiser in optimisers.items()},
        losses,
    )


def _step(
    step: Step,
    modules: Mapping[str, nn.Module],
    optimisers: Mapping[str, torch.optim.Optimizer],
    batch: Batch,
    stream: tuple[object, ...],
) -> Tensor:
    """One forward pass, one backward pass into `step.update`, one move; returns the loss."""
    for name, module in modules.items():
        module.requires_grad_(name in step.update)
        set_dropout_key(module, seed_for(*stream, name))
    with torch.set_grad_enabled(bool(step.update)):
        loss = step.loss(forward(modules, step.outputs, batch.images), batch)
    if step.update:
        for name in step.update:
            optimisers[name].zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        for name in step.update:
            optimisers[name].step()
    return loss.detach().double()


def sweep(work: Sweep, bench: Bench, data: Images, states: States) -> dict[str, State]:
    """Run a `Sweep`."""
    require(work, data)
    modules = bench.modules(states)
    set_modes(modules, dict.fromkeys(modules, "eval"))
    totals: dict[str, Tensor] = {}
    with torch.no_grad():
        for start in range(0, len(data), bench.sweep_batch):
            batch = bench.batch(data, slice(start, start + bench.sweep_batch), labelled=work.labelled)
            with bench.arithmetic():
                outputs = forward(modules, work.outputs, batch.images)
            outputs = {name: value.to(bench.dtype) for name, value in outputs.items()}  # sums want full precision
            for name, value in work.measure(outputs, batch).items():
                totals[name] = totals[name] + value.double() if name in totals else value.double()
        return {part: dict(state) for part, state in work.finish(totals, bench.dtype).items()}


def forward(modules: Mapping[str, nn.Module], outputs: Mapping[str, Path], images: Tensor) -> dict[str, Tensor]:
    """Apply each path to the images, computing a shared beginning once."""
    known: dict[Path, Tensor] = {(): images}
    for path in outputs.values():
        for length in range(1, len(path) + 1):
            if path[:length] not in known:
                known[path[:length]] = modules[path[length - 1]](known[path[: length - 1]])
    return {name: known[path] for name, path in outputs.items()}


def shuffled_batches(images: int, batch_size: int, epochs: int, stream: tuple[object, ...]) -> Iterator[Tensor]:
    """Index batches of every epoch; a last batch of one image is left out, for it has no batch statistics."""
    for epoch in range(epochs):
        order = torch.randperm(images, generator=generator(*stream, "shuffle", epoch))
        for batch in torch.split(order, batch_size):
            if len(batch) > 1:
                yield batch


def mixed(batch: Batch, labels: Tensor, alpha: float, stream: tuple[object, ...]) -> Batch:
    """Mixup: λ x + (1 - λ) x' with λ ~ Beta(alpha, alpha), one λ a batch, x' the same batch in another order."""
    share = float(array_generator(*stream).beta(alpha, alpha))
    order = torch.randperm(len(labels), generator=generator(*stream)).to(labels.device)
    images = batch.images.mul(share).add_(batch.images[order], alpha=1 - share)
    return Batch(images, labels, Mixed(share, labels[order]))


def set_modes(modules: Mapping[str, nn.Module], modes: Mapping[str, Mode]) -> None:
    """Put each module into its mode (see `galafed.work.Mode`); "train" where none is named."""
    for name, module in modules.items():
        mode = modes.get(name, "train")
        module.train(mode != "eval")
        for layer in dropouts(module):
            layer.train(mode == "train")


def copy_of(state: Mapping[str, Tensor]) -> State:
    """A state that shares no memory with the module it came from."""
    return {name: value.detach().clone() for name, value in state.items()}


def _optimiser(work: Fit, module: nn.Module, momentum: State | None) -> torch.optim.SGD:
    settings = work.optimiser
    module.requires_grad_(True)
    optimiser = torch.optim.SGD(
        module.parameters(), lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    for name, parameter in module.named_parameters():
        if momentum is not None:
            optimiser.state[parameter]["momentum_buffer"] = momentum[name].clone()
    return optimiser


def _momentum(module: nn.Module, optimiser: torch.optim.Optimizer) -> State:
    buffers = {name: optimiser.state[p].get("momentum_buffer") for name, p in module.named_parameters()}
    return {name: value.clone() for name, value in buffers.items() if value is not None}


def require(work: Fit | Sweep, data: Images) -> None:
    """Refuse work that the data of a client does not suffice for."""
    if work.labelled and data.labels is None:
        raise WorkError("it has no labels, and the task needs them")
    if isinstance(work, Fit) and work.epochs and len(data) < 2:
        raise WorkError(f"it has {len(data)} image(s); training needs at least 2")
    if isinstance(work, Sweep) and not len(data):
        raise WorkError("it has no images")


def _finite(value: float) -> bool:
    return value == value and abs(value) != float("inf")
