"""The engine `stacked`: all clients at once, equal to `serial`."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from galafed.algorithms.base import algorithms
from galafed.config import Run, Training
from galafed.engines.base import engines
from galafed.federation import Federation
from galafed.loops import Bench, Images
from galafed.model import Model
from galafed.networks.base import networks
from galafed.runs.assembly import pooled

SIZES = {"a": 40, "b": 23, "c": 40, "d": 17, "t": 33}
"""Clients end their epochs at different steps: with batches of 8, some with a short batch, one with a batch of one."""


def images(size: int, seed: int, side: int = 8, *, labelled: bool = True) -> Images:
    """Random images of a client."""
    draw = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (size, side, side, 3), dtype=torch.uint8, generator=draw)
    return Images(pixels, torch.randint(0, 3, (size,), generator=draw) if labelled else None)


def play(
    engine: str,
    algorithm: str = "gala",
    *,
    rounds: int = 3,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    network: str = "small_cnn",
    sizes: dict[str, int] | None = None,
    at_once: int = 0,
    settings: dict[str, Any] | None = None,
    **training: Any,
) -> tuple[Model, list[Any]]:
    """A few rounds of an algorithm on random images; returns the last model and every outcome."""
    sizes = sizes or SIZES
    chosen = networks.get(network)(classes=3, image_size=8)
    data = {name: images(size, number, labelled=name != "t") for number, (name, size) in enumerate(sizes.items())}
    method = algorithms.get(algorithm)
    recipe = Training(**({"lr": 0.05, "batch_size": 8} | training))
    program = method(method.Settings(**(settings or {})), recipe, rounds=rounds)
    config = Run(max_clients_at_once=at_once, threads=1)
    sources = {name: domain for name, domain in data.items() if name != "t"}
    if program.pools_sources:
        data = {"pooled": pooled(sources.values(), data if program.kind == "central" else {}), "t": data["t"]}
    made = engines.get(engine)(bench=Bench(chosen, torch.device("cpu"), dtype), data=data, seed=seed, config=config)
    federation = Federation(
        made,
        chosen,
        sources=set(data) - {"t"},
        target="t",
        seed=seed,
        dtype=dtype,
        domains=tuple(sources) if program.pools_sources else (),
    )
    model = program.start(federation, chosen.initial(seed, dtype))
    outcomes = []
    for number in range(rounds):
        federation.begin_round(number)
        outcome = program.round(federation, model)
        model = outcome.model
        outcomes.append(outcome)
        assert not federation.failures
    return model, outcomes


def distance(one: Model, other: Model) -> float:
    """The largest difference of any number of two models."""
    assert one.parts.keys() == other.parts.keys()
    return max(
        float((value.double() - other.parts[part][name].double()).abs().max())
        for part, state in one.parts.items()
        for name, value in state.items()
    )


METHODS = [name for name in algorithms.names() if name != "oracle"]


@pytest.mark.parametrize("at_once", [0, 2, 5], ids="at_once={}".format)
@pytest.mark.parametrize("algorithm", METHODS)
def test_stacked_equals_serial(algorithm: str, at_once: int) -> None:
    serial, expected = play("serial", algorithm)
    stacked, outcomes = play("stacked", algorithm, at_once=at_once)
    assert distance(serial, stacked) < 1e-10
    for one, other in zip(expected, outcomes, strict=True):
        assert one.relevance == pytest.approx(other.relevance, abs=1e-12)
        for choice in ("groups", "pair"):
            assert one.notes.get(choice) == other.notes.get(choice)
        assert one.loss == pytest.approx(other.loss, abs=1e-10)
