"""What a smaller copy of SVHN costs a plain CNN: python benchmarks/svhn_size.py [FOLDER]

Our SVHN has 28 pixels a side, the original 32. It cannot be made larger, but smaller: what four and eight pixels less
cost tells how much pixels matter. Writes table.md and table.json into the folder (results/svhn-size). No test image of
any domain is used.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev

import torch
from syn_transfer import EPOCHS, HELD, THREADS, Data, accuracy, tensors, trained

from galafed.benchmarks.base import Split, benchmarks
from galafed.runs.files import write_atomically
from galafed.studies.base import commit
from galafed.transforms.scaling import resize

SIZES = (28, 24, 20)
"""Pixels a side that SVHN's and SYN's images are told in; SYN's were made to have 28, as SVHN's have."""
SEEDS = (0, 1, 2)
WORDS = {"svhn": "labels of SVHN", "syn": "labels of SYN"}


def main(folder: Path = Path("results/svhn-size")) -> None:
    """Train on SVHN and on SYN, of each size, and test on other SVHN train images of that size."""
    torch.set_num_threads(THREADS)
    plain = benchmarks.get("digit-five")()
    splits = {name: plain.load(name).train for name in WORDS}
    records: list[dict[str, object]] = []
    folder.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS:
        for size in SIZES:
            data = {name: told_in(split, size) for name, split in splits.items()}
            seen, known = data["svhn"]
            held = seen[-HELD:], known[-HELD:]
            for name, (images, labels) in data.items():
                started = time.perf_counter()
                score = accuracy(trained((images[:-HELD], labels[:-HELD]), seed), held)
                records.append({"train": name, "size": size, "seed": seed, "svhn": score})
                sys.stdout.write(f"{records[-1]} {time.perf_counter() - started:.0f} s\n")
                sys.stdout.flush()
                # After every training, so that an interrupted measurement leaves what it has.
                write_atomically(folder / "table.json", (json.dumps(records, indent=1) + "\n").encode())
                write_atomically(folder / "table.md", written(records).encode())


def told_in(split: Split, size: int) -> Data:
    """Images of 32 pixels a side that know no more than such of `size` pixels."""
    images, labels = tensors(split)
    if size == max(SIZES):
        return images, labels
    known = images.permute(0, 2, 3, 1).numpy()
    return torch.from_numpy(resize(resize(known, size), known.shape[1])).permute(0, 3, 1, 2), labels


def written(records: list[dict[str, object]]) -> str:
    """The table, and what it says."""
    mean = {(name, size): _scores(records, name, size) for name in WORDS for size in SIZES}
    lines = [
        "# SVHN in fewer pixels: what that costs",
        "",
        f"Made by `python benchmarks/svhn_size.py` at commit {commit()} on cpu ({platform.machine()}, torch "
        f"{torch.__version__}, {THREADS} threads). Accuracy in % on {HELD} SVHN train images that were not learned, "
        f"mean ± standard deviation (ddof 0) over {len({record['seed'] for record in records})} seeds, of the plain "
        f"CNN of `benchmarks/syn_transfer.py`, last epoch of {EPOCHS}. Images of SVHN and of SYN are made smaller and "
        "enlarged to 32 pixels again; 28 is how we have them, the original SVHN has 32.",
        "",
        f"| trained with | {' | '.join(f'{size} pixels' for size in SIZES)} |",
        f"|---|{'---|' * len(SIZES)}",
    ]
    for name, words in WORDS.items():
        cells = [f"{fmean(s):.1f} ± {pstdev(s):.1f}" if (s := mean[name, size]) else "-" for size in SIZES]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    if all(mean.values()):
        steps = list(pairwise(SIZES))
        lost = {name: [round(fmean(mean[name, a]) - fmean(mean[name, b]), 1) + 0.0 for a, b in steps] for name in WORDS}
        told = (f"with {WORDS[name]} {' and '.join(f'{points:.1f}' for points in lost[name])}" for name in WORDS)
        between = " and from ".join(f"{a} to {b}" for a, b in steps)
        lines += ["", f"Points lost from {between} pixels: {'; '.join(told)}."]
    return "\n".join([*lines, ""])


def _scores(records: list[dict[str, object]], name: str, size: int) -> list[float]:
    return [float(str(r["svhn"])) for r in records if (r["train"], r["size"]) == (name, size)]


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
