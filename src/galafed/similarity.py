"""How alike domains are: a model trained on each one alone, tested on all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from galafed.benchmarks.base import Benchmark
from galafed.config import Run
from galafed.loops import Bench, Images, fit, sweep
from galafed.model import State
from galafed.networks.base import networks
from galafed.runs.assembly import labelled, pick_device
from galafed.tasks import score, train
from galafed.training import Training

Told = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Similarity:
    """`accuracy[i][j]`: trained on the training images of domain i, tested on the test images of domain j."""

    domains: tuple[str, ...]
    notes: dict[str, str]
    accuracy: list[list[float]]


def similarity(benchmark: Benchmark, config: Run, epochs: int, progress: Told) -> Similarity:
    """Train one model a domain for `epochs` passes and test it on every domain; all start from the same model."""
    device = pick_device(config.device)
    torch.set_num_threads(config.threads)
    network = networks.get(config.network)(classes=len(benchmark.classes), image_size=benchmark.image_size)
    bench = Bench(network, device)
    initial = network.initial(config.seed).parts
    tests: dict[str, Images] = {}
    notes: dict[str, str] = {}
    for name in benchmark.domains:
        domain = benchmark.load(name)
        tests[name], notes[name] = labelled(domain.test), domain.note
    accuracy = []
    for number, name in enumerate(benchmark.domains):
        data = labelled(benchmark.load(name).train).to(device)

        def told(epoch: int, number: int = number, name: str = name) -> None:
            progress(name, number * epochs + epoch, len(benchmark.domains) * epochs)

        states = fitted(bench, config.training, config.seed, name, data, initial, epochs, told)
        accuracy.append([accuracy_of(bench, states, test.to(device)) for test in tests.values()])
    progress("", len(benchmark.domains) * epochs, len(benchmark.domains) * epochs)
    return Similarity(tuple(benchmark.domains), notes, accuracy)


def fitted(
    bench: Bench,
    training: Training,
    seed: int,
    name: str,
    data: Images,
    initial: Mapping[str, State],
    epochs: int,
    told: Callable[[int], None],
) -> dict[str, State]:
    """A model after `epochs` passes over a domain's labelled images, with the run's schedule and lasting momentum."""
    states = {part: {key: value.to(bench.device) for key, value in state.items()} for part, state in initial.items()}
    momentum: dict[str, State] = {}
    for epoch in range(epochs):
        told(epoch)
        settings: dict[str, Any] = training.sgd(epoch, epochs) | {"epochs": 1, "mixup": training.mixup}
        work: Any = train(**settings).work
        done = fit(work, bench, data, states, stream=(seed, "similarity", name, epoch), momentum=momentum)
        states, momentum = done.states, done.momentum
    return states


def accuracy_of(bench: Bench, states: dict[str, State], test: Images) -> float:
    """The share of test images classified rightly."""
    work = score(labelled=True)
    sums = sweep(work, bench, test, {part: states[part] for part in work.modules}).parts["tested"]
    return float(sums["correct"] / sums["images"])
