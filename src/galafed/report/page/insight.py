"""What a report looks at besides the run's own records: the final model and the images of the benchmark."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from numpy.typing import NDArray

from galafed.benchmarks.base import Domain, benchmarks
from galafed.config import Run
from galafed.runs.folders import load_config
from galafed.runs.seeding import array_generator
from galafed.trained.classifier import Classifier
from galafed.trained.loading import BATCH, Trained, load
from galafed.work import Readout

CERTAIN = 8
"""So many of the most and of the least certain images are shown."""
POINTS = 480
"""So many images are on the map, as many of each domain."""
THUMBNAIL = 96
Floats = NDArray[numpy.float32]


@dataclass(frozen=True)
class Shot:
    """One image of the target, for people to look at."""

    picture: str
    """As a data: address."""
    guess: str
    truth: str
    confidence: float


@dataclass(frozen=True)
class Map:
    """Where images lie in the space of features, flattened to two dimensions."""

    names: tuple[str, str]
    places: tuple[Floats, Floats]
    domains: Sequence[str]
    of_domain: Sequence[int]
    of_class: Sequence[int]


@dataclass(frozen=True)
class Insight:
    """Confusion [true, predicted], images, and the map before and after."""

    confusion: list[list[int]]
    certain: list[Shot]
    uncertain: list[Shot]
    map: Map


def look(folder: Path, before: Path | None) -> Insight:
    """Everything that needs the model and the data; raises `DataError` where the data is not here."""
    config, trained = load_config(folder), load(folder)
    benchmark = benchmarks.get(config.benchmark)(config.benchmark_settings)
    domains = {name: benchmark.load(name) for name in (config.target, *config.sources)}
    test = domains[config.target].test
    probabilities = numpy.concatenate([part[0] for part in _outputs(trained.classifier, test.images)])
    guesses, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    matrix = numpy.zeros((len(trained.classes),) * 2, dtype=int)
    numpy.add.at(matrix, (test.labels, guesses), 1)
    order = numpy.argsort(-confidence, kind="stable")

    def shots(chosen: Any) -> list[Shot]:
        return [
            Shot(
                _picture(test.images[n]),
                trained.classes[guesses[n]],
                trained.classes[test.labels[n]],
                float(confidence[n]),
            )
            for n in chosen
        ]

    return Insight(
        confusion=matrix.tolist(),
        certain=shots(order[:CERTAIN]),
        uncertain=shots(order[::-1][:CERTAIN]),
        map=_map(config, trained, domains, before),
    )


def _map(config: Run, trained: Trained, domains: Mapping[str, Domain], before: Path | None) -> Map:
    """The same images under the model all started from, or that of another run, and under the final one."""
    images, of_domain, of_class = [], [], []
    each = max(4, POINTS // len(domains))
    for number, (name, domain) in enumerate(domains.items()):
        split = domain.train
        chosen = array_generator("map", name).permutation(len(split))[:each]
        images.append(numpy.asarray(split.images[chosen]))
        of_domain += [number] * len(chosen)
        of_class += [int(label) for label in split.labels[chosen]]
    every = numpy.concatenate(images)
    if before is None:
        first = trained.classifier.network.initial(config.seed)
        start = Classifier(trained.classifier.network, first, Readout(), None)
        name = "before: the model all sites started from"
    else:
        start, name = load(before).classifier, f"before: the final model of {before.name}"
    return Map(
        (name, f"after: the final model ({config.algorithm})"),
        (_flat(_features(start, every)), _flat(_features(trained.classifier, every))),
        list(domains),
        of_domain,
        of_class,
    )


def _features(classifier: Classifier, images: NDArray[numpy.uint8]) -> Floats:
    with torch.no_grad():
        parts = [classifier.features(batch).float().numpy() for batch in _batches(images)]
    return numpy.concatenate(parts)


def _outputs(classifier: Classifier, images: NDArray[numpy.uint8]) -> list[list[Floats]]:
    with torch.no_grad():
        return [[part.float().numpy() for part in classifier(batch)] for batch in _batches(images)]


def _batches(images: NDArray[numpy.uint8]) -> list[torch.Tensor]:
    return [torch.from_numpy(numpy.array(images[at : at + BATCH])) for at in range(0, len(images), BATCH)]


def _flat(features: Floats) -> Floats:
    """t-SNE in two dimensions, after principal components; the same features give the same map."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    count = len(features)
    narrow = PCA(min(30, count - 1, features.shape[1]), random_state=0).fit_transform(features)
    spread = min(30.0, max(2.0, (count - 1) / 4))
    places: Floats = TSNE(2, perplexity=spread, init="pca", random_state=0, max_iter=500).fit_transform(narrow)
    return numpy.round(places, 2)


def _picture(image: NDArray[numpy.uint8]) -> str:
    from PIL import Image

    picture = Image.fromarray(numpy.asarray(image))
    picture.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
