"""Model = extractor + predictor, and the little algebra of states that aggregation is written in.

A state is what a module is made of: parameters and BatchNorm buffers, by name. Sums run in float64 over clients in
order of name, so every engine and every order of arrival gives the same bits.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Literal

from galafed.lazy import torch

State = dict[str, "torch.Tensor"]
Schema = dict[str, tuple[tuple[int, ...], bool]]
"""Of each tensor: its shape, and whether it holds floating point numbers."""

BLOCK = 2**19
"""Numbers of a tensor that are added up at a time."""

Variance = Literal["linear", "mixture"]


class StateError(ValueError):
    """A state that cannot be used; the message names the client and the tensor."""


@dataclass(frozen=True)
class Model:
    """The states of a model's parts by name; a tag names a model that a client may already hold."""

    parts: Mapping[str, State]
    tag: str | None = None

    @property
    def tags(self) -> dict[str, str]:
        """The tag of each part, for example "h7/extractor"; none of a model without a tag."""
        return {} if self.tag is None else {part: f"{self.tag}/{part}" for part in self.parts}

    @property
    def extractor(self) -> State:
        """G."""
        return self.parts["extractor"]

    @property
    def predictor(self) -> State:
        """F."""
        return self.parts["predictor"]

    def loaded(self) -> Model:
        """The same model with every state in memory: a state may be read from a file that goes with its engine."""
        return Model({part: dict(state) for part, state in self.parts.items()}, tag=self.tag)

    def digest(self) -> str:
        """sha256 over the names, kinds and bytes of every tensor, in order of name."""
        return digest(self.parts)


def kind_of(part: str) -> str:
    """The kind of a part: "predictor" for "predictor:a"."""
    return part.partition(":")[0]


def weighted_mean(states: Mapping[str, State], weights: Mapping[str, float], *, variance: Variance = "linear") -> State:
    """Σ_n w_n s_n / Σ_n w_n, tensor by tensor, over the clients of `states`.

    Running variances are averaged like the rest ("linear"), or as those of the pooled data ("mixture"):
    v = Σ w (v_n + m_n²) - (Σ w m_n)². Counters such as num_batches_tracked take their maximum.
    """
    clients = sorted(states)
    if unweighted := [client for client in clients if client not in weights]:
        raise StateError(f"client {unweighted[0]!r} has no weight")
    share = normalise({client: weights[client] for client in clients})
    schema = schema_of(states[clients[0]])
    for client in clients:
        check_shapes(states[client], schema, client)
    in_memory = {client: states[client] for client in clients if type(states[client]) is dict}
    in_files = ({client: states[client]} for client in clients if client not in in_memory)  # read one at a time
    for some in chain((in_memory,), in_files):
        for reason in impossible(some).values():
            raise StateError(reason)
    mean: State = {}
    weigh = list(share.values())
    for name, (_, floating) in schema.items():
        values = partial(_each, states, clients, name)
        if not floating:
            mean[name] = torch.stack(list(values())).amax(dim=0)
            continue
        mean[name] = _sum_in_blocks(states, clients, name, weigh)
        if variance == "mixture" and name.endswith("running_var"):
            means = [value.double() for value in _each(states, clients, name.replace("running_var", "running_mean"))]
            second = _sum((v.double() + m**2 for v, m in zip(values(), means, strict=True)), weigh)
            mean[name] = (second - _sum(means, weigh) ** 2).to(mean[name].dtype)
    return mean


def _each(states: Mapping[str, State], clients: Iterable[str], name: str) -> Iterator[torch.Tensor]:
    """One tensor of each client, one at a time: a state may be read from a file as it is used."""
    return (states[client][name] for client in clients)


def _sum_in_blocks(states: Mapping[str, State], clients: list[str], name: str, weights: list[float]) -> torch.Tensor:
    """Σ w v of one tensor, some rows at a time: of a large one, a sum in float64 would take as much room as five."""
    first = outline(states[clients[0]])[name]
    shape, at_once = first.shape, max(1, BLOCK // max(1, math.prod(first.shape[1:])))
    in_memory = first.device.type in ("cpu", "meta")  # that of a file has no numbers here; an accelerator would wait
    if not in_memory or not shape or shape[0] <= at_once:
        return _sum(_each(states, clients, name), weights)
    mean: torch.Tensor | None = None
    for start in range(0, shape[0], at_once):
        rows = slice(start, start + at_once)
        block = _sum((_rows(states[client], name, rows) for client in clients), weights)
        if mean is None:
            mean = torch.empty(shape, dtype=block.dtype, device=block.device)
        mean[rows] = block
    if mean is None:
        raise StateError(f"{name!r} has no rows")
    return mean


def _rows(state: State, name: str, rows: slice) -> torch.Tensor:
    """Some rows of a tensor; of one that waits in a file nothing else is read."""
    read = getattr(state, "rows", None)
    found: torch.Tensor = read(name, rows) if read is not None else state[name][rows]
    return found


def _sum(values: Iterable[torch.Tensor], weights: Iterable[float]) -> torch.Tensor:
    """Σ w v in float64 in the order given, returned in the tensors' own precision."""
    total, kind = None, torch.float64
    for value, weight in zip(values, weights, strict=True):
        if total is None:
            total, kind = torch.zeros_like(value, dtype=torch.float64), value.dtype
        total.add_(value, alpha=weight)
    if total is None:
        raise StateError("no client is left to average over")
    return total.to(kind)


def normalise(weights: Mapping[str, float]) -> dict[str, float]:
    """w_n / Σ w, in order of name; refuses an empty, negative, infinite or all-zero set, naming the client."""
    if not weights:
        raise StateError("no client is left to average over")
    for client, weight in weights.items():
        if not math.isfinite(weight) or weight < 0:
            raise StateError(f"client {client!r} has weight {weight}; weights must be finite and not negative")
    total = math.fsum(weights.values())
    if total <= 0:
        raise StateError(
            f"the weights of {', '.join(sorted(weights))} add up to {total}; at least one must be positive"
        )
    return {client: weights[client] / total for client in sorted(weights)}


def renormalise(weights: Mapping[str, float], members: Iterable[str]) -> dict[str, float]:
    """w̃_n = w_n / Σ_{i in members} w_i (Eq. 9): the same weights among fewer clients."""
    return normalise({member: weights[member] for member in members})


def statistics(state: State) -> State:
    """The BatchNorm buffers of a state: running means, running variances and their counters."""
    return {name: value for name, value in state.items() if _is_statistic(name)}


def _is_statistic(name: str) -> bool:
    return name.rpartition(".")[2] in ("running_mean", "running_var", "num_batches_tracked")


def schema_of(state: State) -> Schema:
    """Names, shapes and kinds of number of a state."""
    return {name: (tuple(value.shape), value.is_floating_point()) for name, value in outline(state).items()}


def outline(state: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
    """A state for whoever only looks at names, shapes and kinds of number: one that waits in a file is not read."""
    found: Mapping[str, torch.Tensor] = getattr(state, "outline", state)
    return found


def check(state: Mapping[str, torch.Tensor], schema: Schema, client: str, *, dtype: torch.dtype | None = None) -> None:
    """Refuse a state with a missing, unknown, misshapen or impossible tensor, naming the client and the tensor."""
    check_shapes(state, schema, client, dtype=dtype)
    for reason in impossible({client: state}).values():
        raise StateError(reason)


def check_shapes(
    state: Mapping[str, torch.Tensor], schema: Schema, client: str, *, dtype: torch.dtype | None = None
) -> None:
    """Refuse a state with a missing, unknown or misshapen tensor."""
    state = outline(state)
    missing, extra = schema.keys() - state.keys(), state.keys() - schema.keys()
    if missing or extra:
        what = f"lacks {min(missing)!r}" if missing else f"has an unknown tensor {min(extra)!r}"
        raise StateError(f"the state of client {client!r} {what}")
    for name, (shape, floating) in schema.items():
        value = state[name]
        if tuple(value.shape) != shape:
            raise StateError(f"{name!r} of client {client!r} has shape {list(value.shape)}, expected {list(shape)}")
        if value.is_floating_point() != floating or (floating and dtype is not None and value.dtype != dtype):
            raise StateError(f"{name!r} of client {client!r} has numbers of kind {value.dtype}")


def impossible(states: Mapping[str, Mapping[str, torch.Tensor]]) -> dict[str, str]:
    """What is wrong with the numbers of a client, for each with which something is; the device is asked only once.

    ‖x‖₂ is a number if all of x are, unless squares are too large for one: then every entry is looked at.
    """
    floats = [
        (client, name, value.detach())
        for client, state in states.items()
        for name, value in state.items()
        if value.is_floating_point() and value.numel()
    ]
    variances = [(client, name, value) for client, name, value in floats if name.endswith("running_var")]
    length = torch._foreach_norm([value for _, _, value in floats], 2) if floats else ()
    below = torch._foreach_max(torch._foreach_neg([value for _, _, value in variances])) if variances else ()
    found = _numbers([*length, *below])
    wrong: dict[str, str] = {}
    for (client, name, value), number in zip([*floats, *variances], found, strict=True):
        if not math.isfinite(number) and not value.isfinite().all():
            wrong.setdefault(client, f"{name!r} of client {client!r} holds NaN or infinity")
    for (client, name, _), number in zip(variances, found[len(floats) :], strict=True):
        if number > 0:
            wrong.setdefault(client, f"{name!r} of client {client!r} holds a negative variance")
    return wrong


def _numbers(scalars: list[torch.Tensor]) -> list[float]:
    """The values of tensors of one number each; a reply may hold a count that never was on the device."""
    if not scalars:
        return []
    if len({scalar.device for scalar in scalars}) > 1:
        scalars = [scalar.cpu() for scalar in scalars]
    kinds = {scalar.dtype for scalar in scalars}
    if len(kinds) > 1:
        widest = max(kinds, key=lambda kind: kind.itemsize)
        scalars = [scalar.to(widest) for scalar in scalars]
    values: list[float] = torch.stack(scalars).tolist()
    return values


def size_of(states: Mapping[str, State]) -> int:
    """Bytes of all tensors."""
    return sum(value.numel() * value.element_size() for state in states.values() for value in outline(state).values())


def digest(states: Mapping[str, State]) -> str:
    """sha256 over the names, kinds and bytes of every tensor, in order of name."""
    total = hashlib.sha256()
    for part in sorted(states):
        for name in sorted(states[part]):
            value = states[part][name].detach().cpu().contiguous()
            total.update(f"{part}/{name} {value.dtype} {list(value.shape)}\n".encode())
            total.update(value.numpy().tobytes())
    return total.hexdigest()
