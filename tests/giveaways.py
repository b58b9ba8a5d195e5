"""What must not be seen on the way between server and sites, as bytes to search for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from galafed.benchmarks.toy import Toy
from galafed.networks.base import networks as architectures
from stripes import FEW

NAMES = (b"extractor|", b"predictor|", b"centroids|", b"running_mean", b"safetensors", b"sequence", b'galafed"')
"""Words that stand in every payload, in the clear, before it is encrypted."""


def giveaways(domains: Iterable[str]) -> Iterator[bytes]:
    """Bytes that must not be seen: rows of images, as they are and as a network sees them, labels, names of tensors."""
    yield from NAMES
    network = architectures.get("small_cnn")(classes=len(Toy.classes), image_size=Toy.image_size)
    for name in domains:
        domain = Toy().load(name)
        pixels = torch.from_numpy(domain.train.images[:FEW].copy())
        for view in (pixels, network.prepare(pixels, torch.float32)):
            for image in view.contiguous():
                yield image.reshape(image.shape[0], -1)[0].numpy().tobytes()
        yield domain.train.labels[:FEW].tobytes()


def seen(content: bytes, domains: Iterable[str] = Toy.domains) -> list[bytes]:
    """Which of the giveaways are in some bytes."""
    return [each for each in giveaways(domains) if each in content]
