"""What an algorithm is: a server program, one round of which turns a model into the next one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from galafed.registry import Registry
from galafed.training import Training
from galafed.work import Readout

if TYPE_CHECKING:
    from galafed.federation import Federation
    from galafed.model import Model
    from galafed.networks.base import Network

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a round leaves: the model to go on with, and what is worth writing down."""

    model: Model
    tested: Model | None = None
    """The model to test, where it is not the one to go on with."""
    loss: float
    """Mean training loss of the clients."""
    discrepancy: float | None = None
    """How much the predictors disagreed on the target, where the algorithm measures it."""
    relevance: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Anything else, as plain values for metrics.jsonl."""


class Algorithm(ABC, Generic[S]):
    """One method. `Settings` is a frozen dataclass of its switches; `round` reads like the paper's pseudo-code."""

    name: ClassVar[str]
    kind: ClassVar[Literal["federated", "central", "bound"]]
    paper: ClassVar[str]
    sends: ClassVar[str]
    """What crosses the network in a round, in words."""
    Settings: ClassVar[type]
    needs_two_sources: ClassVar[bool] = False
    """A single source is then cut into two clients."""
    fewest_sources: ClassVar[int] = 1
    """With fewer a run is refused."""
    recommended: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Hyper-parameters of its paper, by family of benchmarks and dotted key; they win over a benchmark's own."""
    sees_target_labels: ClassVar[bool] = False
    """True for the oracle alone."""

    def __init__(self, settings: S, training: Training, *, rounds: int) -> None:
        self.settings = settings
        self.training = training
        self.rounds = rounds

    @property
    def pools_sources(self) -> bool:
        """Whether all source data is put in one place first, which no federation would allow.

        A central method has the unlabelled target images there too, and every domain as a stream of its own.
        """
        return self.kind == "central"

    def readout(self, sources: Sequence[str]) -> Readout:
        """How the tested model is read, of a run with these sources."""
        return Readout()

    def check(self, network: Network) -> None:
        """Refuse, with a `ConfigError`, a network that lacks what the method needs."""

    def start(self, fed: Federation, model: Model) -> Model:
        """Before the first round: what has to be told to clients once."""
        return model

    @abstractmethod
    def round(self, fed: Federation, model: Model) -> Outcome:
        """One round, from h_t to h_{t+1}."""

    def sgd(self, round_number: int) -> dict[str, Any]:
        """The arguments of a training task in this round, with its learning rate."""
        return self.training.sgd(round_number, self.rounds)

    def supervised(self, round_number: int) -> dict[str, Any]:
        """The arguments of a training task on labelled images: `sgd`, and mixup."""
        return self.sgd(round_number) | {"mixup": self.training.mixup}


algorithms: Registry[type[Algorithm[Any]]] = Registry("algorithm", "galafed.algorithms")
