"""A benchmark's images as files, as a user's own would lie."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from galafed.benchmarks.base import Benchmark, Progress
from galafed.errors import ConfigError
from galafed.registry import unknown
from galafed.runs.files import new_folder


def export_images(benchmark: Benchmark, folder: Path, domains: Sequence[str], progress: Progress) -> int:
    """Write FOLDER/DOMAIN/{train,test}/CLASS/*.png and tell how many there are."""
    from PIL import Image

    for domain in domains:
        if domain not in benchmark.domains:
            raise ConfigError(unknown("domain", domain, benchmark.domains))
    if folder.exists():
        raise ConfigError(f"{folder} exists already; name a new folder")
    count = 0
    with new_folder(folder) as temporary:
        for number, domain in enumerate(domains):
            progress(domain, number, len(domains))
            loaded = benchmark.load(domain)
            for split, images in (("train", loaded.train), ("test", loaded.test)):
                for index, (pixels, label) in enumerate(zip(images.images, images.labels, strict=True)):
                    path = temporary / domain / split / benchmark.classes[label] / f"{index:05d}.png"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    Image.fromarray(pixels).save(path)
                    count += 1
    return count
