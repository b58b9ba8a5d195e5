"""What the pretrained network of Office-Caltech10 is worth without any training of it.

    python benchmarks/probe.py [--out results/probe]

Logistic regressions on the frozen features of the sources, tested on the target: one of all sources together, and one
of each source, averaged, which moves no data. No system can be called limited by its network where it is below these.
The same once more with features as a network in training has them: BatchNorm takes the statistics of the batch.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from galafed.benchmarks.base import benchmarks
from galafed.networks.base import networks
from galafed.reproduction.pages import grid
from galafed.runs.files import write_atomically
from galafed.studies.base import commit

BATCH = 128
"""As in training, since features depend on it where statistics are those of the batch."""
STRENGTH = 0.1
"""C of the regression; it was not chosen among others."""
STATISTICS = {False: "", True: ", statistics of the batch"}


def features(domain: str, *, training: bool) -> tuple[np.ndarray, np.ndarray]:
    """Features [n, d] of all images of a domain by the pretrained extractor, and their labels [n]."""
    benchmark = benchmarks.get("office-caltech10")()
    network = networks.get(benchmark.network)(classes=len(benchmark.classes), image_size=benchmark.image_size)
    extractor = network.make("extractor").train(training)
    extractor.load_state_dict(network.pretrained("extractor") or {})
    split = benchmark.load(domain).train
    # Images lie sorted by class: a batch of one class would have statistics of that class.
    order = np.random.default_rng(0).permutation(len(split.images))
    batches = np.array_split(order, -(-len(order) // BATCH))
    with torch.no_grad():
        found = [
            extractor(network.prepare(torch.from_numpy(np.array(split.images[batch])), torch.float32))
            for batch in batches
        ]
    return torch.cat(found).numpy(), np.array(split.labels)[order]


def regression(images: np.ndarray, labels: np.ndarray) -> LogisticRegression:
    """Fitted to features [n, d] and labels [n]."""
    return LogisticRegression(C=STRENGTH, max_iter=1000).fit(images, labels)


def shown(value: float) -> str:
    """Percent as in all tables."""
    return f"{value:.1f}"


def accuracies(known: Mapping[str, tuple[np.ndarray, np.ndarray]], target: str) -> tuple[float, float]:
    """Of a regression of all sources together, and of the mean of one regression of each, in percent of the target."""
    images, labels = known[target]
    sources = [known[domain] for domain in known if domain != target]
    together = regression(np.concatenate([x for x, _ in sources]), np.concatenate([y for _, y in sources]))
    each = [regression(*source) for source in sources]
    scores = images @ np.mean([r.coef_ for r in each], axis=0).T + np.mean([r.intercept_ for r in each], axis=0)
    right = (together.predict(images) == labels, scores.argmax(1) == labels)
    return 100 * float(right[0].mean()), 100 * float(right[1].mean())


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/probe"))
    folder = parser.parse_args().out
    found: dict[str, dict[str, float]] = {}
    domains = benchmarks.get("office-caltech10").domains
    for training, words in STATISTICS.items():
        known = {domain: features(domain, training=training) for domain in domains}
        for target in domains:
            for how, accuracy in zip(
                ("all sources together", "each source, parameters averaged"), accuracies(known, target), strict=True
            ):
                found.setdefault(f"{how}{words}", {})[target] = accuracy
                print(f"{target}, {how}{words}: {accuracy:.1f} %", flush=True)
    made = f"`python benchmarks/probe.py` at commit {commit()} on cpu ({platform.machine()}, torch {torch.__version__})"
    lines = [
        "# Office-Caltech10: a logistic regression on frozen features",
        "",
        f"Made by {made}. Test accuracy in %. The features are those of EfficientNet-Lite0 with its ImageNet weights; "
        f"regressions (C = {STRENGTH}, not chosen among others) are trained on the three sources together, or on each "
        "by itself. Nothing is adapted to the target. BatchNorm normalises with the statistics of ImageNet or, as it "
        f"does in training, with those of the batch: of up to {BATCH} images of one domain, the target's too.",
        "",
        grid(
            ["", *domains, "mean"], [[row, *map(shown, (*a.values(), fmean(a.values())))] for row, a in found.items()]
        ),
        "",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "table.md", "\n".join(lines).encode())
    write_atomically(folder / "table.json", (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
