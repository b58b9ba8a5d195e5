"""From a run's folder to the classifier it ended with; needs neither the benchmark's data nor a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from galafed.algorithms.base import algorithms
from galafed.benchmarks.base import benchmarks
from galafed.config import read_toml
from galafed.errors import CheckpointError
from galafed.former import with_moved
from galafed.networks.base import networks
from galafed.runs import checkpoint as checkpoints
from galafed.runs.folders import CONFIG
from galafed.runs.profile import read_profile
from galafed.runs.records import finished
from galafed.trained.classifier import Classifier
from galafed.trained.images import Pictures, squares
from galafed.trained.package import DESCRIPTION, unpacked
from galafed.trained.prediction import Prediction, Predictions
from galafed.training import Training
from galafed.typed import build

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 256


@dataclass(frozen=True)
class Trained:
    """The classifier a run ended with: its last round, which is the run's result."""

    folder: Path
    summary: Mapping[str, Any]
    classes: tuple[str, ...]
    image_size: int
    classifier: Classifier

    def predict(self, images: Pictures) -> Predictions:
        """Predict pictures: a path, a folder, an array uint8 [n, h, w, 3], a Pillow image, or a list of these."""
        rows: list[Prediction] = []
        for names, batch in squares(images, self.image_size, BATCH):
            rows.extend(self._predict(names, batch))
        return Predictions(tuple(rows), self.classes, tells_unlike=self.classifier.knows_target)

    def _predict(self, names: Sequence[str], images: NDArray[np.uint8]) -> Iterator[Prediction]:
        with torch.no_grad():
            probabilities, *distances = self.classifier(torch.from_numpy(images))
        far = distances[0].tolist() if distances else [None] * len(names)
        for name, row, distance in zip(names, probabilities.double(), far, strict=True):
            confidence, winner = row.max(dim=0)
            yield Prediction(
                image=name,
                label=self.classes[int(winner)],
                confidence=float(confidence),
                probabilities=tuple(row.tolist()),
                distance=distance,
            )


def load(run: str | Path) -> Trained:
    """The classifier of a finished run, checked against the checksums it was saved with; or that of an export."""
    folder = Path(run)
    if (folder / DESCRIPTION).is_file():
        description, classifier = unpacked(folder)
        return Trained(folder, description, tuple(description["classes"]), classifier.network.image_size, classifier)
    summary = finished(folder)
    values = with_moved(read_toml(folder / CONFIG))
    newest, damaged = checkpoints.newest_valid(folder)
    model = newest.tested or newest.model
    digest = model.digest()
    if digest != summary["digest"]:
        what = "; ".join(damaged) or "its newest checkpoint is of another model"
        raise CheckpointError(f"{folder}: the model of its summary is not there ({what}); restore it, or run it again")
    classes, size = _seen(summary, values)
    network = networks.get(summary["network"])(classes=len(classes), image_size=size)
    name = str(values["algorithm"])
    algorithm_class = algorithms.get(name)
    settings: Any = build(algorithm_class.Settings, values.get(name, {}), f"{name}.")
    training = build(Training, values.get("training", {}), "training.")
    algorithm = algorithm_class(settings, training, rounds=int(values["rounds"]))
    readout = algorithm.readout(values["sources"])
    return Trained(folder, summary, classes, size, Classifier(network, model, readout, read_profile(folder, digest)))


def _seen(summary: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
    """Class names and image size, from the summary or, of a run of an earlier version, from its benchmark."""
    if "classes" in summary:
        return tuple(summary["classes"]), int(summary["image_size"])
    name = summary["benchmark"]
    benchmark_class = benchmarks.get(name)
    opened: Any = build(benchmark_class.Settings, values.get(name, {}), f"{name}.")
    benchmark = benchmark_class(opened)
    return benchmark.classes, benchmark.image_size
