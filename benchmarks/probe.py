"""What the pretrained network of Office-Caltech10 is worth without any training of it.

    python benchmarks/probe.py [--out results/probe]

Logistic regressions on the frozen features of the sources, tested on the target: one of all sources together, and one
of each source, averaged, which moves no data. No system can be called limited by its network where it is below these.
The same once more with features as a network in training has them: BatchNorm takes the statistics of the batch; and
with those of larger networks. Which of these to take is also asked of the sources alone, each tested by a regression
of the others.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from galafed.benchmarks.base import benchmarks
from galafed.benchmarks.office_caltech10 import OfficeSettings
from galafed.networks.base import networks
from galafed.reproduction.pages import grid
from galafed.runs.files import write_atomically
from galafed.studies.base import commit

BATCH = 128
"""As in training, since features depend on it where statistics are those of the batch."""
STRENGTH = 0.1
"""C of the regression; it was not chosen among others."""
STATISTICS = {False: "", True: ", statistics of the batch"}
LARGER = {
    ", EfficientNet-Lite2 with 224 pixels": ("efficientnet_lite2_fixed", 224),
    ", EfficientNet-Lite2 with 260 pixels": ("efficientnet_lite2_fixed", 260),
    ", ResNet-50": ("resnet50_fixed", 224),
}
"""Networks and pixels a side; those of Lite2 were trained with 260, the others with 224."""
Known = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""Features [n, d] and labels [n] of each domain."""


def features(
    domain: str, *, network_name: str = "efficientnet_lite0", size: int = 224, training: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Features [n, d] of all images of a domain by a pretrained extractor, and their labels [n]."""
    benchmark = benchmarks.get("office-caltech10")(OfficeSettings(image_size=size))
    network = networks.get(network_name)(classes=len(benchmark.classes), image_size=size)
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


def together(known: Known, target: str) -> float:
    """Accuracy of one regression of all other domains together, in percent of the target."""
    images, labels = known[target]
    sources = [known[domain] for domain in known if domain != target]
    fitted = regression(np.concatenate([x for x, _ in sources]), np.concatenate([y for _, y in sources]))
    return 100 * float((fitted.predict(images) == labels).mean())


def averaged(known: Known, target: str) -> float:
    """Accuracy of the mean of one regression of each other domain, in percent of the target."""
    images, labels = known[target]
    each = [regression(*known[domain]) for domain in known if domain != target]
    scores = images @ np.mean([r.coef_ for r in each], axis=0).T + np.mean([r.intercept_ for r in each], axis=0)
    return 100 * float((scores.argmax(1) == labels).mean())


def without_each(known: Known, target: str) -> float:
    """Mean accuracy on each source of a regression of the other sources, in percent; nothing of the target is used."""
    sources = {domain: pair for domain, pair in known.items() if domain != target}
    return fmean(together(sources, source) for source in sources)


WAYS = {
    "all sources together": together,
    "each source, parameters averaged": averaged,
    "without each source in turn": without_each,
}


def ahead(found: Mapping[str, Mapping[str, float]], way: str) -> dict[str, float]:
    """Points by which fixed statistics have more than those of the batch, by target."""
    fixed, batch = (found[f"{way}{words}"] for words in STATISTICS.values())
    return {target: fixed[target] - batch[target] for target in fixed}


def named(targets: Sequence[str]) -> str:
    """Targets in a sentence."""
    return ", ".join(targets) or "no target"


def verdict(found: Mapping[str, Mapping[str, float]]) -> str:
    """Which statistics the sources alone choose for each target, and where the target's labels choose the same."""
    alone, labelled = ahead(found, "without each source in turn"), ahead(found, "all sources together")
    fixed, batch = [t for t in alone if alone[t] > 0], [t for t in alone if alone[t] < 0]
    same = [t for t in alone if alone[t] * labelled[t] > 0]
    return (
        f"So chosen, without a label of the target, are fixed statistics for {named(fixed)} and those of the batch for "
        f"{named(batch)}: fixed ones have {min(alone.values()):+.1f} to {max(alone.values()):+.1f} points. The "
        f"target's labels (all sources together) choose the same for {len(same)} of {len(alone)} targets."
    )


def larger(found: Mapping[str, Mapping[str, float]]) -> str:
    """Which network, and with which size of images, the sources alone choose."""
    names = {words: words.removeprefix(", ") or "EfficientNet-Lite0" for words in ("", *LARGER)}
    alone = {name: fmean(found[f"without each source in turn{words}"].values()) for words, name in names.items()}
    told = "; ".join(f"{name} {shown(value)}" for name, value in alone.items())
    best = max(alone, key=alone.__getitem__)
    return f"Of the networks, on average over targets, they choose {best} ({told})."


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/probe"))
    folder = parser.parse_args().out
    found: dict[str, dict[str, float]] = {}
    domains = benchmarks.get("office-caltech10").domains
    others = {words: {"network_name": name, "size": size} for words, (name, size) in LARGER.items()}
    for words, kind in ({words: {"training": training} for training, words in STATISTICS.items()} | others).items():
        known = {domain: features(domain, **kind) for domain in domains}
        for target in domains:
            for way, accuracy_of in WAYS.items():
                accuracy = accuracy_of(known, target)
                found.setdefault(f"{way}{words}", {})[target] = accuracy
                print(f"{target}, {way}{words}: {accuracy:.1f} %", flush=True)
    print(verdict(found), larger(found), flush=True)
    made = f"`python benchmarks/probe.py` at commit {commit()} on cpu ({platform.machine()}, torch {torch.__version__})"
    lines = [
        "# Office-Caltech10: a logistic regression on frozen features",
        "",
        f"Made by {made}. Test accuracy in %. The features are those of EfficientNet-Lite0, or of the network that a "
        f"row names, with ImageNet weights; regressions (C = {STRENGTH}, not chosen among others) are trained on the three "
        "sources together, or on each by itself. Nothing is adapted to the target. BatchNorm normalises with the "
        "statistics of ImageNet or, as it does in training, with those of the batch: of up to "
        f"{BATCH} images of one domain, the target's too.",
        "",
        grid(
            ["", *domains, "mean"], [[row, *map(shown, (*a.values(), fmean(a.values())))] for row, a in found.items()]
        ),
        "",
        "Rows without each source in turn are no accuracies on the target: each of its sources is tested by a "
        f"regression of the other two, and the three accuracies are averaged. {verdict(found)} {larger(found)}",
        "",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "table.md", "\n".join(lines).encode())
    write_atomically(folder / "table.json", (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
