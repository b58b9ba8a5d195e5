"""How well a plain CNN trained on SYN does on SVHN and MNIST: python benchmarks/syn_transfer.py [FOLDER]

Writes table.md and table.json into the folder (results/syn). No test image of any domain is used: SVHN's share for
testing is taken from its train images, because it is by this number that the recipe of SYN was chosen.
"""

from __future__ import annotations

import json
import math
import platform
import sys
import time
from pathlib import Path
from statistics import fmean, pstdev
from typing import TypeAlias

import numpy
import torch
from torch import Tensor, nn

from galafed.benchmarks.base import Split, benchmarks
from galafed.runs.files import write_atomically
from galafed.runs.seeding import generator
from galafed.studies.base import commit

EPOCHS, BATCH, RATE, THREADS = 4, 128, 4e-3, 2
HELD = 6000
"""SVHN train images kept for testing; the bound is trained on the others."""
SEEDS = (0, 1)

Data: TypeAlias = tuple[Tensor, Tensor]


def main(folder: Path = Path("results/syn")) -> None:
    """Train on SYN and, as the bound, on SVHN; test both on SVHN and on MNIST."""
    torch.set_num_threads(THREADS)
    benchmark = benchmarks.get("digit-five")()
    domains = {name: benchmark.load(name) for name in ("syn", "svhn", "mnist")}
    syn, svhn, mnist = (tensors(domain.train) for domain in domains.values())
    held, rest = (svhn[0][-HELD:], svhn[1][-HELD:]), (svhn[0][:-HELD], svhn[1][:-HELD])
    label = f"syn ({domains['syn'].note})" if domains["syn"].note else "syn"
    records = []
    folder.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS:
        for name, data in ((label, syn), ("svhn (the bound)", rest)):
            started = time.perf_counter()
            network = trained(data, seed)
            scores = {"svhn": accuracy(network, held), "mnist": accuracy(network, mnist)}
            records.append({"train": name, "images": len(data[1]), "seed": seed, **scores})
            sys.stdout.write(f"{records[-1]} {time.perf_counter() - started:.0f} s\n")
            sys.stdout.flush()
            # After every training, so that an interrupted measurement leaves what it has.
            write_atomically(folder / "table.json", (json.dumps(records, indent=1) + "\n").encode())
            write_atomically(folder / "table.md", written(records, len(mnist[1])).encode())


def tensors(split: Split) -> Data:
    """Images uint8 [n, 3, 32, 32] and labels [n]."""
    return torch.from_numpy(numpy.array(split.images)).permute(0, 3, 1, 2), torch.from_numpy(split.labels)


def plain_cnn(seed: int) -> nn.Sequential:
    """Three 3x3 convolutions of 32, 64 and 128 channels, batch normalisation, one hidden layer of 128 units."""
    blocks: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 128)):
        blocks += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    network = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(128 * 16, 128), nn.ReLU(), nn.Linear(128, 10))
    stream = generator("syn transfer", seed, "start")
    for parameter in network.parameters():
        if parameter.ndim > 1:
            nn.init.kaiming_uniform_(parameter, a=math.sqrt(5), generator=stream)  # as PyTorch does by itself
    for layer in network:
        if isinstance(layer, nn.Conv2d | nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return network


def trained(data: Data, seed: int) -> nn.Sequential:
    """The network after four epochs of Adam, the rate rising and falling once."""
    images, labels = data
    network = plain_cnn(seed)
    steps = EPOCHS * (len(labels) // BATCH)
    optimiser = torch.optim.Adam(network.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, steps)
    for epoch in range(EPOCHS):
        order = torch.randperm(len(labels), generator=generator("syn transfer", seed, epoch))
        for index in torch.split(order[: len(labels) // BATCH * BATCH], BATCH):
            loss = nn.functional.cross_entropy(network(scaled(images[index])), labels[index])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    return network.eval()


def accuracy(network: nn.Sequential, data: Data) -> float:
    """Percent of images classified rightly."""
    images, labels = data
    with torch.no_grad():
        guesses = torch.cat([network(scaled(part)).argmax(dim=1) for part in torch.split(images, 500)])
    return round(100 * (guesses == labels).double().mean().item(), 2)


def scaled(images: Tensor) -> Tensor:
    """Levels 0..255 as -1..1."""
    return images.float().div_(127.5).sub_(1)


def written(records: list[dict[str, object]], mnist_images: int) -> str:
    """The table, and what must be known to read it."""
    lines = [
        "# SYN, regenerated: transfer to SVHN and MNIST",
        "",
        f"Made by `python benchmarks/syn_transfer.py` at commit {commit()} on cpu ({platform.machine()}, torch "
        f"{torch.__version__}, {THREADS} threads). Accuracy in %, mean ± standard deviation (ddof 0) over "
        f"{len({record['seed'] for record in records})} seeds of the network; one realisation of SYN. Last epoch of "
        f"{EPOCHS}.",
        "",
        f"| trained on | images | {HELD} SVHN train images | {mnist_images} MNIST train images |",
        "|---|---|---|---|",
    ]
    for name in dict.fromkeys(str(record["train"]) for record in records):
        rows = [record for record in records if record["train"] == name]
        cells = []
        for column in ("svhn", "mnist"):
            values = [float(str(row[column])) for row in rows]
            cells.append(f"{fmean(values):.1f} ± {pstdev(values):.1f}")
        lines.append(f"| {name} | {rows[0]['images']} | {cells[0]} | {cells[1]} |")
    lines += [
        "",
        "The network is a plain CNN (three convolutions of 32, 64 and 128 channels), Adam, batches of "
        f"{BATCH}. The bound is the same network trained on the other SVHN train images.",
        "",
        "To know when reading results on `syn (regenerated)`: the recipe of the generator was chosen among 14 "
        "settings by the labels of 6000 SVHN *train* images, before this code was written. The generator follows "
        "that recipe; what the recipe leaves open was set once, by eye. No test image of SVHN or MNIST entered "
        "either choice. Two earlier trials of this measurement, with the same generator, gave 80.8 on SVHN and "
        "83.7 on MNIST (another network, other test images of the same train splits) and 79.2 and 77.4 (larger "
        "initial weights than PyTorch's own). One variation of the generator was tried afterwards and not kept: "
        "digits a tenth smaller gave 76.0 and 79.9. The author of the recipe had measured 81.6 and 81.6, and 88.8 "
        "for the bound, with a network of the same make. Likeness to the published SYN is unverified; the "
        "published set is larger and probably more colourful.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
