"""The two loops: how one client runs a `Fit` or a `Sweep`. The reference every engine is held against."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor, nn

from galafed.batches import WorkError, parallel_batches, shuffled_batches, sweep_batches
from galafed.mixing import mixed
from galafed.model import State
from galafed.networks.base import Network
from galafed.networks.layers import dropouts, entering, last_layer, materialised, set_dropout_key
from galafed.optimiser import Optimiser
from galafed.runs.seeding import seed_for
from galafed.work import HIDDEN, Batch, Fit, Mode, Path, Rows, States, Step, Sweep, stream_of

REMEDY = "lower the learning rate or look at its images and labels"
NOT_FINITE = f"its loss is not a finite number; {REMEDY}"


@dataclass(frozen=True)
class Images:
    """A client's images uint8 [n, h, w, 3] and, at a labelled client, their class numbers int64 [n].

    Where data was put in one place, the domains it came from are its `streams`.
    """

    images: Tensor
    labels: Tensor | None = None
    streams: Mapping[str, Images] = field(default_factory=dict)
    exam: Images | None = None
    """The labelled test images, for `Sweep.exam` alone."""

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: torch.device) -> Images:
        """The same data on another device."""
        return Images(
            self.images.to(device),
            None if self.labels is None else self.labels.to(device),
            {name: images.to(device) for name, images in self.streams.items()},
            None if self.exam is None else self.exam.to(device),
        )

    def stream(self, name: str) -> Images:
        """The images of a stream; "" stands for the client's own."""
        if name and name not in self.streams:
            raise WorkError(f"it does not hold the images of {name}")
        return self.streams[name] if name else self


@dataclass(frozen=True)
class Bench:
    """Where work is done: a network, a device, a precision, and one reusable module for each part."""

    network: Network
    device: torch.device
    dtype: torch.dtype = torch.float32
    products: torch.dtype | None = None
    """A lower precision for products and convolutions; states, statistics and losses keep `dtype`."""
    sweep_batch: int = 0
    """So many images a sweep in eval mode passes over at once, where that makes no difference; 0: as the work says."""
    compiles: bool = False
    """Whether time may be spent on compiling kernels and recording graphs, which pays over many rounds."""

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
                    module = self.make(part)
                pool[part] = materialised(module, self.device, self.dtype)
            pool[part].load_state_dict(state)
        return {part: pool[part] for part in states}

    def make(self, part: str) -> nn.Module:
        """A new module of a part."""
        return self.network.make(part)

    def forward(
        self,
        modules: Mapping[str, nn.Module],
        outputs: Mapping[str, Path],
        batch: Batch,
        enter: Callable[[str, str], None] | None = None,
    ) -> dict[str, Tensor]:
        """`forward` with this bench's products; losses and sums then go on in full precision."""
        low: AbstractContextManager[object] = nullcontext()
        if self.products is not None:
            low = torch.autocast(self.device.type, self.products)
        with low:
            found = forward(modules, outputs, batch, enter)
        return {name: value.to(self.dtype) for name, value in found.items()}

    def batch(
        self, data: Images, index: Tensor | slice, *, labelled: bool, rows: Mapping[str, Tensor] | None = None
    ) -> Batch:
        """The images of an index, normalised on the device; labels only where the task may see them."""
        images = self.network.prepare(data.images[index], self.dtype)
        labels = data.labels[index] if labelled and data.labels is not None else None
        return Batch(images, labels, rows={name: values[index] for name, values in (rows or {}).items()})


@dataclass(frozen=True)
class Fitted:
    """States after a fit, momentum by module, and the mean of each step's loss."""

    states: dict[str, State]
    momentum: dict[str, State]
    losses: tuple[float, ...]


@dataclass(frozen=True)
class Swept:
    """What a sweep made: parts, and values for single images, which never travel."""

    parts: dict[str, State]
    rows: dict[str, Tensor]


def fit(
    work: Fit,
    bench: Bench,
    data: Images,
    states: States,
    *,
    stream: tuple[object, ...],
    momentum: States,
    rows: Rows | None = None,
) -> Fitted:
    """Run a `Fit`; `stream` names the random stream of the shuffles and dropout masks."""
    require(work, data)
    modules = bench.modules(states)
    set_modes(modules, work.modes)
    updated = dict.fromkeys(module for step in work.steps for module in step.update)
    optimisers = {
        name: Optimiser(work.optimiser, work.optimiser.lr * work.rate(name), modules[name], momentum.get(name))
        for name in updated
    }
    totals = torch.zeros(len(work.steps), dtype=torch.float64, device=bench.device)
    count = 0
    for batch in _batches(work, bench, data, stream, needed_rows(work, rows or {})):
        if work.mixup and (batch.labels is not None or batch.rows):
            batch = mixed(batch, work.mixup, (*stream, count, "mixup"))
        for number, step in enumerate(work.steps):
            totals[number] += _step(step, bench, modules, optimisers, batch, (*stream, count, number))
        count += 1
    losses = tuple((totals / max(count, 1)).tolist())
    if not all(map(_finite, losses)):
        raise WorkError(NOT_FINITE)
    return Fitted(
        {name: copy_of(module.state_dict()) for name, module in modules.items()},
        {name: optimiser.momentum() for name, optimiser in optimisers.items()},
        losses,
    )


def _step(
    step: Step,
    bench: Bench,
    modules: Mapping[str, nn.Module],
    optimisers: Mapping[str, Optimiser],
    batch: Batch,
    stream: tuple[object, ...],
) -> Tensor:
    """One forward pass, one backward pass into `step.update`, one move; returns the loss."""
    for name, module in modules.items():
        module.requires_grad_(name in step.update)
        set_dropout_key(module, seed_for(*stream, name))
    enter = partial(_enter, modules, stream) if batch.streams else None
    with torch.set_grad_enabled(bool(step.update)):
        outputs = bench.forward(modules, step.outputs, batch, enter)
        loss = step.loss(outputs, batch)
    if step.update:
        for name in step.update:
            optimisers[name].forget_gradients()
        loss.backward()  # type: ignore[no-untyped-call]
        for name in step.update:
            optimisers[name].step()
    if step.remember is not None:
        with torch.no_grad():
            for name, values in step.remember(outputs, batch).items():
                modules[name].load_state_dict(values)
    return loss.detach().double()


def sweep(
    work: Sweep,
    bench: Bench,
    data: Images,
    states: States,
    *,
    stream: tuple[object, ...] = (),
    rows: Rows | None = None,
) -> Swept:
    """Run a `Sweep`; `stream` names the random stream of its order and dropout masks, where it has any."""
    require(work, data)
    data = data.stream(work.stream)
    known = (rows or {}).get(work.stream, {})
    modules = bench.modules(states)
    set_modes(modules, dict.fromkeys(modules, work.mode))
    enter = partial(_enter, modules, stream) if work.stream else None
    totals: dict[str, Tensor] = {}
    found: dict[str, list[Tensor]] = {name: [] for name in work.rows}
    size = bench.sweep_batch or work.batch_size if work.mode == "eval" else work.batch_size
    order = sweep_batches(len(data), replace(work, batch_size=size), stream)
    with torch.no_grad():
        for number, index in enumerate(order):
            batch = bench.batch(data, index.to(bench.device), labelled=work.labelled, rows=known)
            if work.mode == "train":
                for name, module in modules.items():
                    set_dropout_key(module, seed_for(*stream, number, name))
            batch = Batch(batch.images[:0], streams={work.stream: batch}) if work.stream else batch
            for name, value in work.measure(bench.forward(modules, work.outputs, batch, enter), batch).items():
                if name in found:
                    found[name].append(value)
                else:
                    totals[name] = totals[name] + value.double() if name in totals else value.double()
        gathered = {name: torch.cat(values) for name, values in found.items()}
        if gathered and work.mode != "eval" and not work.sample:
            back = torch.argsort(torch.cat(order)).to(bench.device)
            gathered = {name: values[back] for name, values in gathered.items()}
        parts = work.finish(totals | gathered, bench.dtype)
    return Swept({part: dict(state) for part, state in parts.items()}, {} if work.sample else gathered)


def forward(
    modules: Mapping[str, nn.Module],
    outputs: Mapping[str, Path],
    batch: Batch,
    enter: Callable[[str, str], None] | None = None,
) -> dict[str, Tensor]:
    """Apply each path to the images it starts at, computing a shared beginning once.

    `enter` is told a module's name and the stream before the module is applied.
    """
    known: dict[Path, Tensor] = {(): batch.images}
    known |= {(f"@{name}",): part.images for name, part in batch.streams.items()}
    for path in outputs.values():
        for length in range(1, len(path) + 1):
            if path[:length] not in known:
                if enter is not None:
                    enter(path[length - 1], stream_of(path))
                known[path[:length]] = _apply(modules, path[length - 1], known[path[: length - 1]])
    return {name: known[path] for name, path in outputs.items()}


def _apply(modules: Mapping[str, nn.Module], name: str, x: Tensor) -> Tensor:
    """A module's output; of "a|b" that of a with the parameters and buffers of b in place of its own."""
    if name.endswith(HIDDEN):
        predictor = modules[name.removesuffix(HIDDEN)]
        return entering(last_layer(predictor), predictor, x)
    module, _, other = name.partition("|")
    lent = dict(modules[other].named_parameters()) | dict(modules[other].named_buffers()) if other else {}
    output: Tensor = torch.func.functional_call(modules[module], lent, x) if lent else modules[module](x)
    return output


def _enter(modules: Mapping[str, nn.Module], names: tuple[object, ...], name: str, stream: str) -> None:
    """Each stream has dropout masks of its own."""
    module = name.partition("|")[0]
    set_dropout_key(modules[module], seed_for(*names, module, *([f"@{stream}"] if stream else [])))


def _batches(work: Fit, bench: Bench, data: Images, stream: tuple[object, ...], rows: Rows) -> Iterator[Batch]:
    """The batches of a fit: of the client's own images, or one of every stream at a time."""

    def batch_of(name: str, index: Tensor) -> Batch:
        place = index.to(bench.device)
        return bench.batch(data.stream(name), place, labelled=work.labelled, rows=rows.get(name))

    if work.streams == ("",):
        for index in shuffled_batches(len(data), work.batch_size, work.epochs, stream):
            yield batch_of("", index)
        return
    nothing = bench.batch(data, slice(0), labelled=False)
    sizes = {name: len(data.stream(name)) for name in work.streams}
    for indices in parallel_batches(sizes, work.batch_size, work.epochs, stream):
        found = {name: batch_of(name, index) for name, index in indices.items()}
        own = found.pop("", nothing)
        yield Batch(own.images, own.labels, rows=own.rows, streams=found)


def needed_rows(work: Fit, rows: Rows) -> Rows:
    """The rows a fit names, by stream."""
    needed = {s: {name: rows[s][name] for name in work.rows if name in rows[s]} for s in work.streams if s in rows}
    for name in work.rows:
        if not any(name in found for found in needed.values()):
            raise WorkError(f"it found out no {name} in this round")
    return needed


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


def require(work: Fit | Sweep, data: Images) -> None:
    """Refuse work that the data of a client does not suffice for."""
    for name in work.streams if isinstance(work, Fit) else (work.stream,):
        images = data.stream(name)
        if work.labelled and images.labels is None and (isinstance(work, Sweep) or not name):
            raise WorkError("it has no labels, and the task needs them")
        if isinstance(work, Fit) and work.epochs and len(images) < 2:
            raise WorkError(f"it has {len(images)} image(s); training needs at least 2")
        if isinstance(work, Sweep) and not len(images):
            raise WorkError("it has no images")


def _finite(value: float) -> bool:
    return value == value and abs(value) != float("inf")
