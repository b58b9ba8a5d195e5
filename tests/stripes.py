"""The stripes of `toy` as files, for any number of sites with images of their own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import Image

from galafed.benchmarks.toy import SIZE, Toy

FEW = 12
"""Images a split and site: a round is then over at once."""


def write_stripes(folder: Path, sites: Iterable[str]) -> dict[str, str]:
    """A folder {train,test}/CLASS/*.png for each site; returns the settings of runs on them."""
    names = tuple(sites)
    for number, site in enumerate(names):
        domain = Toy().load(Toy.domains[number % len(Toy.domains)])
        for part in ("train", "test"):
            split: Any = getattr(domain, part)
            for place, (image, label) in enumerate(zip(split.images[:FEW], split.labels[:FEW], strict=True)):
                file = folder / site / part / Toy.classes[label] / f"{place:02d}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image).save(file)
    listed = "[" + ",".join(f'"{name}"' for name in names) + "]"
    classes = "[" + ",".join(f'"{name}"' for name in Toy.classes) + "]"
    return {
        "target": names[-1],
        "sites.domains": listed,
        "sites.classes": classes,
        "sites.image_size": str(SIZE),
        "network": "small_cnn",
        "training.batch_size": "12",
        "training.epochs": "1",
        "threads": "1",
    }
