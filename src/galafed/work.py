"""The two primitives that carry all client work: `Fit` steps a model on a loss, `Sweep` passes over data and sums.

Both are declarations. They say nothing about devices, loops or random states, so an engine may run them for one client
or for many at once. Losses and measures are pure functions of (outputs, batch).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from galafed.model import Schema, State

if TYPE_CHECKING:
    import torch

    from galafed.networks.base import Network

Path = tuple[str, ...]
"""Modules applied one after the other to the images: ("extractor", "predictor").

A path starts at the client's own images or, at a client that holds several domains, at the stream it names first:
("@svhn", "extractor", "predictor"). "extractor|norms:extractor:svhn" is the extractor with what the part after the bar
holds (here, BatchNorm layers) in place of its own. "predictor/hidden" ends before the predictor's last
fully connected layer.
"""

HIDDEN = "/hidden"

Mode = Literal["train", "no_dropout", "eval"]
"""train: batch statistics and dropout; no_dropout: batch statistics only; eval: running statistics, no dropout."""


@dataclass(frozen=True)
class Mixed:
    """Mixup: the images are λ x + (1 - λ) x', with `share` λ and the `labels` [n] and `rows` of the x'."""

    share: float
    labels: torch.Tensor | None
    rows: Mapping[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Batch:
    """Normalised images [n, 3, h, w] and, where the client has them and the task may see them, labels [n].

    Of work that names streams, a batch of each; the images are then none where no path starts at the client's own.
    """

    images: torch.Tensor
    labels: torch.Tensor | None = None
    mixed: Mixed | None = None
    rows: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """What an earlier `Sweep` of this round found out about each image: [n, ...] by name."""
    streams: Mapping[str, Batch] = field(default_factory=dict)


Outputs = Mapping[str, "torch.Tensor"]
States = Mapping[str, State]
Rows = Mapping[str, Mapping[str, "torch.Tensor"]]
"""Values for every image of a stream (of the client's own images under ""), [images, ...] by name."""


def stream_of(path: Path) -> str:
    """The stream a path starts at; "" stands for the client's own images."""
    return path[0][1:] if path[0].startswith("@") else ""


Rule = Literal["confident", "mean"]


@dataclass(frozen=True)
class Readout:
    """How a model is read: the paths whose class probabilities decide, and how they do.

    confident: for each image the path with the largest probability; mean: the mean of the probabilities.
    """

    paths: tuple[Path, ...] = (("extractor", "predictor"),)
    rule: Rule = "confident"

    @property
    def extracting(self) -> tuple[Path, ...]:
        """Every path but for the predictor at its end, each once: where the features that decide come out."""
        return tuple(dict.fromkeys(path[:-1] for path in self.paths))

    def present(self, parts: Iterable[str]) -> Readout:
        """The same without the paths of a source that dropped out of the run."""
        there = set(parts)
        return Readout(tuple(path for path in self.paths if there.issuperset(_modules([path]))), self.rule)

    @property
    def parts(self) -> tuple[str, ...]:
        """Every part that is needed, in order of first use."""
        return _modules(self.paths)


def _modules(paths: Iterable[Path]) -> tuple[str, ...]:
    elements = [element.removesuffix(HIDDEN) for path in paths for element in path if element[0] != "@"]
    return tuple(dict.fromkeys(name for element in elements for name in element.split("|")))


def _streams(paths: Iterable[Path]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(stream_of, paths)))


@dataclass(frozen=True, kw_only=True)
class Sgd:
    """Stochastic gradient descent; `persistent` carries the momentum of each module from one task to the next."""

    lr: float
    momentum: float = 0.9
    weight_decay: float = 5e-4
    persistent: bool = False
    extractor_rate: float = 1.0
    """Factor on the learning rate of extractors, which may know more than predictors from the start."""


class Descent(TypedDict):
    """The arguments of every task that trains: what `Training.sgd` says of a round."""

    lr: float
    momentum: float
    weight_decay: float
    persistent: bool
    extractor_rate: float
    batch_size: int
    epochs: int


def descent(sgd: Descent) -> dict[str, Any]:
    """The fields of a fit that say how it descends; arguments may come from elsewhere, so none may lack or be new."""
    if sgd.keys() != Descent.__annotations__.keys():
        raise TypeError(f"got {', '.join(sorted(sgd))}; training takes {', '.join(Descent.__annotations__)}")
    optimiser = Sgd(
        lr=sgd["lr"],
        momentum=sgd["momentum"],
        weight_decay=sgd["weight_decay"],
        persistent=sgd["persistent"],
        extractor_rate=sgd["extractor_rate"],
    )
    return {"optimiser": optimiser, "batch_size": sgd["batch_size"], "epochs": sgd["epochs"]}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One optimiser step: outputs along paths, a loss of them, and the modules whose parameters move.

    A module outside `update` gets no gradient; with an empty `update` only BatchNorm statistics move.
    """

    outputs: Mapping[str, Path]
    loss: Callable[[Outputs, Batch], torch.Tensor]
    update: tuple[str, ...]
    remember: Callable[[Outputs, Batch], States] | None = None
    """What modules without parameters hold from this step on, as pure a function as the loss: a moving mean, say."""


@dataclass(frozen=True)
class Finished:
    """What a task leaves: parts that travel, parts that stay for this round, parts that stay under a model's tag."""

    sends: States
    stays: States = field(default_factory=dict)
    holds: States = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """`epochs` passes over shuffled batches, every `Step` once a batch; a last batch of a single image is left out.

    Where paths name several streams, each step draws a batch from every one; an epoch ends with the longest stream,
    and a shorter one starts over in a new order.
    """

    steps: tuple[Step, ...]
    optimiser: Sgd
    batch_size: int
    epochs: int = 1
    labelled: bool
    mixup: float = 0.0
    """Parameter of mixup's Beta distribution; 0 mixes nothing, nor are images mixed that have no labels nor rows."""
    rows: tuple[str, ...] = ()
    """What the losses need of what a `Sweep` of this round left at the client."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Factors on the learning rate of single modules; of those not named here `rate` tells."""
    repeat: int = 0
    """How often this task was asked for before in this round: each time draws other batches."""
    modes: Mapping[str, Mode] = field(default_factory=dict)
    """Modules are in "train" mode unless named here."""
    recall: tuple[str, ...] = ()
    """Modules that start from what the client kept in this round rather than from the payload."""
    own: tuple[str, ...] = ()
    """Modules the client made itself and keeps for the whole run; they never leave it."""
    finish: Callable[[States], Finished]
    schema: Callable[[Network], Mapping[str, Schema]]
    """What the reply must look like."""

    @property
    def modules(self) -> tuple[str, ...]:
        """Every module any step needs, in order of first use."""
        return _modules(self._paths)

    @property
    def streams(self) -> tuple[str, ...]:
        """Every stream any step needs, in order of first use."""
        return _streams(self._paths)

    def rate(self, module: str) -> float:
        """The factor on the learning rate of a module."""
        usual = self.optimiser.extractor_rate if module.startswith(("extractor", "norms:extractor")) else 1.0
        return self.rates.get(module, usual)

    @property
    def _paths(self) -> list[Path]:
        return [path for step in self.steps for path in step.outputs.values()]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One pass without gradient: Σ over batches of `measure`, in float64, then `finish`."""

    outputs: Mapping[str, Path]
    measure: Callable[[Outputs, Batch], Mapping[str, torch.Tensor]]
    rows: tuple[str, ...] = ()
    """Values of `measure` that are not summed but stand for single images [n, ...]; they stay for this round."""
    finish: Callable[[Mapping[str, torch.Tensor], torch.dtype], States]
    """From the sums and rows to what is sent, in the precision of the run."""
    keeps: tuple[str, ...] = ()
    """Parts of what `finish` makes that are not sent but stay at the client for this round."""
    recall: tuple[str, ...] = ()
    """Modules that start from what the client kept in this round rather than from the payload."""
    schema: Callable[[Network], Mapping[str, Schema]]
    labelled: bool = False
    batch_size: int = 512
    sample: int = 0
    """Look at so many images only, drawn anew in each round; their rows are for `finish` alone. 0 looks at all."""
    mode: Mode = "eval"
    """In eval mode the pass is in order; with batch statistics in a random one, for neighbours may be alike."""
    exact: bool = False
    """What is sent is sums in float64, whatever the precision of the run."""
    exam: Sweep | None = None
    """A second pass with the same modules over the client's test images, whose labels no other work can see.

    A client without any answers with what its `finish` makes of nothing."""

    @property
    def modules(self) -> tuple[str, ...]:
        """Every module the pass needs, in order of first use."""
        return _modules(self.outputs.values())

    @property
    def stream(self) -> str:
        """The one stream the pass is over."""
        (name,) = _streams(self.outputs.values())
        return name


@dataclass(frozen=True)
class Task:
    """Work with the name and plain arguments it can be built from again at another site."""

    name: str
    arguments: Mapping[str, Any]
    work: Fit | Sweep


TASKS: dict[str, Callable[..., Task]] = {}


def task(build: Callable[..., Fit | Sweep]) -> Callable[..., Task]:
    """Decorator: a function from plain keyword arguments to work becomes a named task, found again by its name."""
    name = build.__name__

    @wraps(build)
    def make(**arguments: Any) -> Task:
        return Task(name, arguments, build(**arguments))

    if name in TASKS:
        raise ValueError(f"two tasks are called {name!r}")
    TASKS[name] = make
    return make
