"""Judging finished runs by every criterion, without target labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from galafed.benchmarks.base import benchmarks
from galafed.runs.folders import load_config
from galafed.runs.records import metrics
from galafed.trained.loading import BATCH, load
from galafed.tuning.criteria.base import Evidence, criteria

MOST = 2000
"""So many of the target's images are looked at."""


@dataclass(frozen=True)
class Judged:
    """A finished run with its scores; its accuracy stands beside them for people and is never used to pick."""

    settings: Mapping[str, Any]
    scores: Mapping[str, float | None]
    accuracy: float
    """An oracle knows it."""
    run: str


def evidence_of(folder: Path) -> Evidence:
    """What can be known of a finished run from the target's unlabelled training images."""
    config, trained = load_config(folder), load(folder)
    benchmark = benchmarks.get(config.benchmark)(config.benchmark_settings)
    images = benchmark.load(config.target).train.images[:MOST]  # its labels are not looked at
    parts = [torch.from_numpy(numpy.array(images[at : at + BATCH])) for at in range(0, len(images), BATCH)]
    with torch.no_grad():
        probabilities = torch.cat([trained.classifier(part)[0] for part in parts])
        features = torch.cat([trained.classifier.features(part) for part in parts])
    return Evidence(probabilities, features, metrics(folder))


def scores_of(folder: Path) -> dict[str, float | None]:
    """The scores of a finished run by every criterion."""
    evidence = evidence_of(folder)
    return {name: criteria.get(name)().score(evidence) for name in criteria.names()}


def judge(folder: Path, settings: Mapping[str, Any], accuracy: float) -> Judged:
    """A finished run with its scores."""
    return Judged(dict(settings), scores_of(folder), accuracy, str(folder))


def pick(judged: Sequence[Judged], criterion: str) -> Judged | None:
    """The run a criterion prefers, the first on a tie; none where it cannot tell."""
    able = [run for run in judged if run.scores.get(criterion) is not None]
    return max(able, key=lambda run: float(run.scores[criterion] or 0.0), default=None)


def oracle(judged: Sequence[Judged]) -> Judged:
    """The run with the highest test accuracy: what somebody with labels would pick."""
    return max(judged, key=lambda run: run.accuracy)
