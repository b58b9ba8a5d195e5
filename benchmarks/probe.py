"""What the pretrained network of Office-Caltech10 is worth without any training of it.

    python benchmarks/probe.py [--out results/probe]

Logistic regressions on the frozen features of the sources, tested on the target: one of all sources together, and one
of each source, averaged, which moves no data. No system can be called limited by its network where it is below these.
"""

from __future__ import annotations

import argparse
import json
import platform
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

BATCH = 64
STRENGTH = 0.1
"""C of the regression; it was not chosen among others."""


def features(domain: str) -> tuple[np.ndarray, np.ndarray]:
    """Features [n, d] of all images of a domain by the pretrained extractor in eval mode, and their labels [n]."""
    benchmark = benchmarks.get("office-caltech10")()
    network = networks.get(benchmark.network)(classes=len(benchmark.classes), image_size=benchmark.image_size)
    extractor = network.make("extractor").eval()
    extractor.load_state_dict(network.pretrained("extractor") or {})
    split = benchmark.load(domain).train
    with torch.no_grad():
        found = [
            extractor(network.prepare(torch.from_numpy(np.array(split.images[start : start + BATCH])), torch.float32))
            for start in range(0, len(split.images), BATCH)
        ]
    return torch.cat(found).numpy(), np.array(split.labels)


def regression(images: np.ndarray, labels: np.ndarray) -> LogisticRegression:
    """Fitted to features [n, d] and labels [n]."""
    return LogisticRegression(C=STRENGTH, max_iter=1000).fit(images, labels)


def shown(value: float) -> str:
    """Percent as in all tables."""
    return f"{value:.1f}"


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/probe"))
    folder = parser.parse_args().out
    known = {}
    for domain in benchmarks.get("office-caltech10").domains:
        known[domain] = features(domain)
        print(f"{domain}: {len(known[domain][1])} images", flush=True)
    found: dict[str, dict[str, float]] = {"all sources together": {}, "each source, parameters averaged": {}}
    for target, (images, labels) in known.items():
        sources = [known[domain] for domain in known if domain != target]
        together = regression(np.concatenate([x for x, _ in sources]), np.concatenate([y for _, y in sources]))
        each = [regression(*source) for source in sources]
        scores = images @ np.mean([r.coef_ for r in each], axis=0).T + np.mean([r.intercept_ for r in each], axis=0)
        for row, right in zip(found, (together.predict(images) == labels, scores.argmax(1) == labels), strict=True):
            found[row][target] = 100 * float(right.mean())
            print(f"{target}, {row}: {found[row][target]:.1f} %", flush=True)
    made = f"`python benchmarks/probe.py` at commit {commit()} on cpu ({platform.machine()}, torch {torch.__version__})"
    lines = [
        "# Office-Caltech10: a logistic regression on frozen features",
        "",
        f"Made by {made}. Test accuracy in %. The features are those of EfficientNet-Lite0 with its ImageNet weights; "
        f"regressions (C = {STRENGTH}, not chosen among others) are trained on the three sources together, or on each "
        "by itself. Nothing is adapted to the target.",
        "",
        grid(["", *known, "mean"], [[row, *map(shown, (*a.values(), fmean(a.values())))] for row, a in found.items()]),
        "",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "table.md", "\n".join(lines).encode())
    write_atomically(folder / "table.json", (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
