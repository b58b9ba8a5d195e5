"""From a configuration to the things a run is made of: data, clients, network, engine, federation, evaluator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch

from galafed.algorithms.base import Algorithm, algorithms
from galafed.benchmarks.base import Domain, Split, benchmarks
from galafed.config import Run
from galafed.engines.base import engines
from galafed.errors import ConfigError
from galafed.federation import Engine, Federation
from galafed.loops import Bench, Images
from galafed.networks.base import Network, networks
from galafed.participation import Participation
from galafed.runs.evaluation import Evaluator
from galafed.runs.seeding import generator

POOLED = "pooled"


@dataclass(frozen=True)
class Assembly:
    """Everything a run needs, ready to use."""

    algorithm: Algorithm[Any]
    network: Network
    engine: Engine
    federation: Federation
    evaluator: Evaluator
    device: torch.device
    dtype: torch.dtype
    notes: Mapping[str, str]
    """What has to be said of a domain wherever it is shown."""


def assemble(config: Run) -> Assembly:
    """Load the data and make everything the configuration names."""
    device = pick_device(config.device)
    dtype = torch.float64 if config.precision == "float64" else torch.float32
    products = torch.bfloat16 if config.precision == "bfloat16" else None
    benchmark = benchmarks.get(config.benchmark)(config.benchmark_settings)
    network = networks.get(config.network)(classes=len(benchmark.classes), image_size=benchmark.image_size)
    algorithm = algorithms.get(config.algorithm)(config.settings, config.training, rounds=config.rounds)
    algorithm.check(network)
    factory = engines.get(config.engine)
    data: dict[str, Images] = {}
    names, notes = config.sources, dict(benchmark.notes())
    if not factory.federated:  # else no image is ever on this side
        domains = {name: benchmark.load(name) for name in (*config.sources, config.target)}
        data = client_data(domains, config, algorithm)
        names = tuple(name for name in data if name != config.target)
        notes = {name: domain.note for name, domain in domains.items() if domain.note}
    engine = factory(bench=Bench(network, device, dtype, products), data=data, seed=config.seed, config=config)
    federation = Federation(
        engine,
        network,
        sources=names,
        target=config.target,
        domains=config.sources if algorithm.pools_sources else (),
        seed=config.seed,
        dtype=dtype,
        quorum=config.quorum,
        timeout=config.timeout or None,
        participation=Participation(
            share=config.participation, by=config.participation_by, fewest=max(2, config.quorum)
        ),
    )
    for name in config.poison.sources:
        wrong = f"{config.poison.share:.0%} of its labels poisoned"
        notes[name] = f"{notes[name]}; {wrong}" if name in notes else wrong
    evaluator = Evaluator(federation, algorithm.readout(federation.domains))
    return Assembly(algorithm, network, engine, federation, evaluator, device, dtype, notes)


def client_data(domains: Mapping[str, Domain], config: Run, algorithm: Algorithm[Any]) -> dict[str, Images]:
    """What each client holds. The target gets images alone: its labels exist for the oracle and nobody else."""
    data = {name: source_images(domains[name], config) for name in config.sources}
    if algorithm.pools_sources:
        streams = data | {config.target: unlabelled(domains[config.target].train)}
        data = {POOLED: pooled(data.values(), streams if algorithm.kind == "central" else {})}
    elif algorithm.needs_two_sources and len(data) == 1:
        (name, whole), *_ = data.items()
        data = halves(name, whole, config.seed)
    data[config.target] = target_images(domains[config.target], algorithm)
    return data


def source_images(domain: Domain, config: Run) -> Images:
    """What a source holds."""
    images = labelled(domain.train)
    return poisoned(images, domain.name, config) if domain.name in config.poison.sources else images


def target_images(domain: Domain, algorithm: Algorithm[Any]) -> Images:
    """What the target holds: images alone for training, and apart from them the test images with their labels."""
    seen = labelled(domain.train) if algorithm.sees_target_labels else unlabelled(domain.train)
    return replace(seen, exam=labelled(domain.test) if len(domain.test) else None)


def poisoned(source: Images, name: str, config: Run) -> Images:
    """A source of whose labels a random share is wrong by one class."""
    classes = len(benchmarks.get(config.benchmark)(config.benchmark_settings).classes)
    labels = _labels(source).clone()
    order = torch.randperm(len(labels), generator=generator(config.seed, "poison", name))
    wrong = order[: round(config.poison.share * len(labels))]
    labels[wrong] = (labels[wrong] + 1) % classes
    return Images(source.images, labels)


def pooled(domains: Iterable[Images], streams: Mapping[str, Images]) -> Images:
    """The labelled images of several domains as one, and the streams a central method tells apart."""
    every = list(domains)
    return Images(torch.cat([d.images for d in every]), torch.cat([_labels(d) for d in every]), streams)


def halves(name: str, whole: Images, seed: int) -> dict[str, Images]:
    """A single source as two clients with half of its images each: without two predictors there is no disagreement."""
    order = torch.randperm(len(whole), generator=generator(seed, "halves", name))
    parts = order.chunk(2)
    return {f"{name}#{k}": Images(whole.images[i], _labels(whole)[i]) for k, i in enumerate(parts, start=1)}


def labelled(split: Split) -> Images:
    """A split with its labels."""
    return Images(_tensor(split.images), _tensor(split.labels))


def unlabelled(split: Split) -> Images:
    """A split without its labels."""
    return Images(_tensor(split.images))


def pick_device(name: str) -> torch.device:
    """The device a configuration asks for."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(f"device = {name!r}: this machine has no usable CUDA device; accepted here are auto and cpu")
    return torch.device(name)


def _tensor(array: numpy.ndarray) -> torch.Tensor:
    # A copy: the array may be a read-only view of a file.
    return torch.from_numpy(numpy.array(array))


def _labels(data: Images) -> torch.Tensor:
    if data.labels is None:
        raise ValueError("a source without labels")
    return data.labels
