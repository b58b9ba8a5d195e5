"""The two primitives that carry all client work: `Fit` steps a model on a loss, `Sweep` passes over data and sums.

Both are declarations. They say nothing about devices, loops or random states, so an engine may run them for one client
or for many at once. Losses and measures are pure functions of (outputs, batch).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

from galafed.model import Schema, State

if TYPE_CHECKING:
    import torch

    from galafed.networks.base import Network

Path = tuple[str, ...]
"""Modules applied one after the other to the images: ("extractor", "predictor")."""

Mode = Literal["train", "no_dropout", "eval"]
"""train: batch statistics and dropout; no_dropout: batch statistics only; eval: running statistics, no dropout."""


@dataclass(frozen=True)
class Mixed:
    """Mixup: the images are λ x + (1 - λ) x', with `share` λ and the `labels` [n] of the x'."""

    share: float
    labels: torch.Tensor


@dataclass(frozen=True)
class Batch:
    """Normalised images [n, 3, h, w] and, where the client has them and the task may see them, labels [n]."""

    images: torch.Tensor
    labels: torch.Tensor | None = None
    mixed: Mixed | None = None


Outputs = Mapping[str, "torch.Tensor"]
States = Mapping[str, State]


@dataclass(frozen=True, kw_only=True)
class Sgd:
    """Stochastic gradient descent; `persistent` carries the momentum of each module from one task to the next."""

    lr: float
    momentum: float = 0.9
    weight_decay: float = 5e-4
    persistent: bool = False


@dataclass(frozen=True, kw_only=True)
class Step:
    """One optimiser step: outputs along paths, a loss of them, and the modules whose parameters move.

    A module outside `update` gets no gradient; with an empty `update` only BatchNorm statistics move.
    """

    outputs: Mapping[str, Path]
    loss: Callable[[Outputs, Batch], torch.Tensor]
    update: tuple[str, ...]


@dataclass(frozen=True)
class Finished:
    """What a task leaves: parts that travel, parts that stay for this round, parts that stay under a model's tag."""

    sends: States
    stays: States = field(default_factory=dict)
    holds: States = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """`epochs` passes over shuffled batches, every `Step` once a batch; a last batch of a single image is left out."""

    steps: tuple[Step, ...]
    optimiser: Sgd
    batch_size: int
    epochs: int = 1
    labelled: bool
    mixup: float = 0.0
    """Parameter of mixup's Beta distribution; 0 mixes nothing."""
    modes: Mapping[str, Mode] = field(default_factory=dict)
    """Modules are in "train" mode unless named here."""
    recall: tuple[str, ...] = ()
    """Modules that start from what the client kept in this round rather than from the payload."""
    finish: Callable[[States], Finished]
    schema: Callable[[Network], Mapping[str, Schema]]
    """What the reply must look like."""

    @property
    def modules(self) -> tuple[str, ...]:
        """Every module any step needs, in order of first use."""
        paths = [path for step in self.steps for path in step.outputs.values()]
        return tuple(dict.fromkeys(module for path in paths for module in path))


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One pass in order, in eval mode, without gradient: Σ over batches of `measure`, in float64, then `finish`."""

    outputs: Mapping[str, Path]
    measure: Callable[[Outputs, Batch], Mapping[str, torch.Tensor]]
    finish: Callable[[Mapping[str, torch.Tensor], torch.dtype], States]
    """From the sums to what is sent, in the precision of the run."""
    schema: Callable[[Network], Mapping[str, Schema]]
    labelled: bool = False

    @property
    def modules(self) -> tuple[str, ...]:
        """Every module the pass needs, in order of first use."""
        return tuple(dict.fromkeys(module for path in self.outputs.values() for module in path))


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
