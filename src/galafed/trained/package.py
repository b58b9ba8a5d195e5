"""A classifier in two files that need no run beside them: `model.safetensors` and `model.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of

from galafed.errors import DataError
from galafed.model import Model, State
from galafed.networks.base import networks
from galafed.trained.classifier import Classifier
from galafed.work import Readout

TENSORS, DESCRIPTION = "model.safetensors", "model.json"
PROFILE = "profile"
KEPT = ("benchmark", "target", "sources", "algorithm", "network", "rounds", "seed", "accuracy", "digest", "config_hash")


def packed(classifier: Classifier) -> bytes:
    """Every tensor under PART|NAME, the target's profile under profile|NAME."""
    tensors = {f"{part}|{name}": value for part, s in classifier.states().items() for name, value in s.items()}
    profile = classifier.profile or {}
    return bytes_of(tensors | {f"{PROFILE}|{name}": value for name, value in profile.items()})


def described(
    classifier: Classifier, summary: Mapping[str, Any], classes: tuple[str, ...], size: int
) -> dict[str, Any]:
    """What has to be known to put the tensors together and to read the answers."""
    network = classifier.network
    return {
        "format": 1,
        "classes": list(classes),
        "image_size": size,
        "mean": network.mean,
        "deviation": network.deviation,
        "paths": [list(path) for path in classifier.readout.paths],
        "rule": classifier.readout.rule,
        **{key: summary[key] for key in KEPT},
    }


def unpacked(folder: Path) -> tuple[dict[str, Any], Classifier]:
    """The description and the classifier of an exported folder."""
    try:
        description = json.loads((folder / DESCRIPTION).read_bytes())
        states: dict[str, State] = {}
        for key, value in tensors_of((folder / TENSORS).read_bytes()).items():
            part, _, name = key.partition("|")
            states.setdefault(part, {})[name] = value
        classes, size = description["classes"], int(description["image_size"])
        network = networks.get(description["network"])(classes=len(classes), image_size=size)
        readout = Readout(tuple(map(tuple, description["paths"])), description["rule"])
        profile = states.pop(PROFILE, None)
        return description, Classifier(network, Model(states), readout, profile)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, safetensors.SafetensorError) as error:
        raise DataError(
            f"{folder}: is no exported model that can be loaded ({error}); export it with "
            "'gala export RUN --format safetensors'"
        ) from None
