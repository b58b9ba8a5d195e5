"""Why nines of USPS are taken for sevens: python benchmarks/usps_frame.py [FOLDER]

Digits of USPS fill their frame, those of the sources do not. A plain CNN that learnt the sources is shown USPS as it
is, and smaller on a black ground. Writes table.md and table.json into the folder (results/usps-frame). No test image of
any domain is used, and nothing that is trained elsewhere sees a smaller USPS.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from copy import deepcopy
from pathlib import Path
from statistics import fmean, pstdev

import numpy
import torch
from syn_transfer import EPOCHS, THREADS, Data, scaled, tensors, trained
from torch import Tensor, nn

from galafed.benchmarks.base import benchmarks
from galafed.runs.files import write_atomically
from galafed.runs.seeding import generator
from galafed.studies.base import commit
from galafed.transforms.scaling import resize

SOURCES = ("mnist", "mnistm", "svhn", "syn")
WIDTHS = (32, 28, 24)
"""Pixels of 32 that USPS's images are told in; 32 is how all systems here have them."""
SEEDS = (0, 1, 2)
SEVEN, NINE = 7, 9
STROKE = 64
"""Levels above which a pixel belongs to a digit."""


def main(folder: Path = Path("results/usps-frame")) -> None:
    """Train on MNIST and on all four sources, test on USPS's train images, with either's BatchNorm statistics."""
    torch.set_num_threads(THREADS)
    benchmark = benchmarks.get("digit-five")()
    known = {name: tensors(benchmark.load(name).train) for name in SOURCES}
    usps, labels = tensors(benchmark.load("usps").train)
    lessons = {"mnist": known["mnist"], "the four sources": mixed(known)}
    of_frame = {"mnist": height(known["mnist"][0]), "usps": height(usps)}
    records: list[dict[str, object]] = []
    folder.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS:
        for name, lesson in lessons.items():
            started = time.perf_counter()
            network = trained(lesson, seed)
            for width in WIDTHS:
                seen = smaller(usps, width)
                for whose, judge in (("its own", network), ("of USPS", with_statistics_of(seen, network))):
                    told = {"train": name, "seed": seed, "width": width, "statistics": whose}
                    records.append(told | judged(judge, (seen, labels)))
            sys.stdout.write(f"{records[-1]} {time.perf_counter() - started:.0f} s\n")
            sys.stdout.flush()
            # After every training, so that an interrupted measurement leaves what it has.
            found = {"heights": of_frame, "true": shares(labels), "records": records}
            write_atomically(folder / "table.json", (json.dumps(found, indent=1) + "\n").encode())
            write_atomically(folder / "table.md", written(found).encode())


def mixed(known: dict[str, Data]) -> Data:
    """As many images as MNIST has, in equal parts of all domains."""
    each = len(known["mnist"][1]) // len(known)
    order = torch.randperm(each * len(known), generator=generator("usps frame", 0, "order"))
    images, labels = (torch.cat([data[place][:each] for data in known.values()])[order] for place in (0, 1))
    return images, labels


def smaller(images: Tensor, width: int) -> Tensor:
    """Images [n, 3, 32, 32] made smaller, in the middle of a black frame of the same size."""
    size = images.shape[-1]
    if width == size:
        return images
    small = torch.from_numpy(resize(images.permute(0, 2, 3, 1).numpy(), width)).permute(0, 3, 1, 2)
    before = (size - width) // 2
    after = size - width - before
    return nn.functional.pad(small, (before, after, before, after))


def height(images: Tensor) -> float:
    """The mean height of what is drawn, in percent of the frame."""
    drawn = (images.amax(dim=1) > STROKE).any(dim=2)  # [n, rows]
    rows = torch.arange(drawn.shape[1])
    last = torch.where(drawn, rows, -1).amax(dim=1)
    first = torch.where(drawn, rows, drawn.shape[1]).amin(dim=1)
    return round(100 * (last - first + 1).double().mean().item() / drawn.shape[1], 1)


def with_statistics_of(images: Tensor, network: nn.Sequential) -> nn.Sequential:
    """The network with the BatchNorm statistics of these images, which takes no labels."""
    adapted = deepcopy(network)
    for layer in adapted:
        if isinstance(layer, nn.BatchNorm2d):
            layer.reset_running_stats()
            layer.momentum = None  # the mean over all batches
    adapted.train()
    with torch.no_grad():
        for part in torch.split(images, 500):
            adapted(scaled(part))
    return adapted.eval()


def judged(network: nn.Sequential, data: Data) -> dict[str, float]:
    """Percent of images classified rightly, and taken for sevens and nines."""
    images, labels = data
    with torch.no_grad():
        guesses = torch.cat([network(scaled(part)).argmax(dim=1) for part in torch.split(images, 500)])
    return {"accuracy": round(100 * (guesses == labels).double().mean().item(), 2), **shares(guesses)}


def shares(labels: Tensor) -> dict[str, float]:
    """Sevens and nines in percent."""
    counts = numpy.bincount(labels.numpy(), minlength=10) / len(labels)
    return {"sevens": round(100 * float(counts[SEVEN]), 2), "nines": round(100 * float(counts[NINE]), 2)}


def written(found: dict[str, object]) -> str:
    """The table, and what must be known to read it."""
    records: list[dict[str, object]] = found["records"]  # type: ignore[assignment]
    heights: dict[str, float] = found["heights"]  # type: ignore[assignment]
    true: dict[str, float] = found["true"]  # type: ignore[assignment]
    lines = [
        "# USPS in a smaller frame: why nines are taken for sevens",
        "",
        f"Made by `python benchmarks/usps_frame.py` at commit {commit()} on cpu ({platform.machine()}, torch "
        f"{torch.__version__}, {THREADS} threads). The plain CNN of `benchmarks/syn_transfer.py`, last epoch of "
        f"{EPOCHS}, on the train images of USPS, which it never learned: accuracy in %, mean ± standard deviation "
        f"(ddof 0) over {len({record['seed'] for record in records})} seeds; in brackets of how many images of 100 it "
        f"says that they are sevens and nines, where {true['sevens']:.1f} and {true['nines']:.1f} are. 32 pixels is "
        "how all systems here have USPS, the whole frame; the others stand in the middle of a black one. BatchNorm "
        "statistics of USPS take no labels, and are what GALA and FACT get in passing.",
        "",
        f"What is drawn is {heights['usps']:.0f} % as high as the frame in USPS and {heights['mnist']:.0f} % in MNIST.",
        "",
        f"| learnt | statistics | {' | '.join(f'{width} pixels' for width in WIDTHS)} |",
        f"|---|---|{'---|' * len(WIDTHS)}",
    ]
    for name in dict.fromkeys(str(record["train"]) for record in records):
        for whose in ("its own", "of USPS"):
            cells = [_cell(records, name, whose, width) for width in WIDTHS]
            lines.append(f"| {name} | {whose} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _cell(records: list[dict[str, object]], name: str, whose: str, width: int) -> str:
    rows = [r for r in records if (r["train"], r["statistics"], r["width"]) == (name, whose, width)]
    scores, sevens, nines = ([float(str(row[key])) for row in rows] for key in ("accuracy", "sevens", "nines"))
    return f"{fmean(scores):.1f} ± {pstdev(scores):.1f} ({fmean(sevens):.1f} and {fmean(nines):.1f})"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
