"""Seconds of KD3A's consensus focus against the number of sources, beside the forward passes it follows.

    python benchmarks/kd3a.py [--device cuda] [--threads 2] [--out results/kd3a]

An epoch of 25000 target images. The votes are drawn: every source is right on an image with a probability of its own,
and surer when it is right. Forward passes are those of the paper's network on random images, a few batches of which
are timed and scaled to the epoch.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

import torch

from galafed.consensus_focus import Form, best_form, consensus_focus
from galafed.networks.digit_cnn import DigitCnn
from galafed.reproduction.published import SECONDS_PER_ROUND
from galafed.reproduction.timing import CLASSES, disputed, drawn_votes, shortest
from galafed.studies.base import commit

IMAGES, GATE, BATCH = 25000, 0.9, 128
SOURCES = (3, 5, 7, 9, 12, 17)
PAPER = {count: round(seconds) for count, seconds in SECONDS_PER_ROUND["KD3A"].items()}
"""Seconds a round of the public code, as the paper reports them."""
LARGEST = {"subsets": 12, "blocks": 17, "sampled": 17}


def forward_seconds(device: torch.device, batches: int) -> float:
    """One source model over the epoch, from a few batches."""
    network = DigitCnn(classes=CLASSES, image_size=32)
    model = torch.nn.Sequential(network.extractor(), network.predictor()).to(device).eval()
    images = torch.zeros(BATCH, 3, 32, 32, device=device)

    def work() -> None:
        with torch.no_grad():
            for _ in range(batches):
                model(images)

    return shortest(work, device)[0] / batches * IMAGES / BATCH


def measure(device: torch.device) -> list[dict[str, Any]]:
    """One record for each number of sources."""
    one = forward_seconds(device, batches=100 if device.type == "cuda" else 4)
    records = []
    for sources in SOURCES:
        confidence, vote = drawn_votes(IMAGES, sources, device)
        share = disputed(confidence, vote, GATE)
        record: dict[str, Any] = {"sources": sources, "disputed": share, "forward": sources * one}
        found: dict[str, torch.Tensor] = {}
        forms: tuple[Form, ...] = ("subsets", "blocks", "sampled")
        for form in forms:
            if sources > LARGEST[form]:
                continue

            def work(form: Form = form, c: torch.Tensor = confidence, v: torch.Tensor = vote) -> torch.Tensor:
                return consensus_focus(c, v, gate=GATE, classes=CLASSES, form=form, seed=1)

            record[form], focus = shortest(work, device, repeats=1 if form == "blocks" else 2)
            found[form] = focus / focus.sum()
        record["chosen"] = best_form(sources, GATE)
        record["sampled_error"] = float((found["sampled"] - found["blocks"]).abs().max())
        if "subsets" in found:
            record["exact_forms_differ_by"] = float((found["subsets"] - found["blocks"]).abs().max())
        record["paper"] = PAPER.get(sources)
        records.append(record)
        sys.stdout.write(f"{json.dumps(record)}\n")
        sys.stdout.flush()
    return records


def markdown(records: list[dict[str, Any]], made: str) -> str:
    """A table to read."""
    lines = [
        "# KD3A's consensus focus: seconds for an epoch",
        "",
        f"{made} {IMAGES} images, {CLASSES} classes, gate {GATE}; drawn votes. Forward passes: `digit_cnn`, one for "
        "each source, scaled from a few batches. The form that `auto` takes is in bold. The error is the largest one "
        "of a normalised weight, sampled against exact. The last column is what the paper reports of a whole round of "
        "the public code, on an A100.",
        "",
        "| sources | disputed | forward passes | subsets, exact | blocks, exact | sampled | its error | public code |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in records:
        shown = {f: f"{r[f]:.3f}" if f in r else "-" for f in LARGEST}
        shown[r["chosen"]] = f"**{shown[r['chosen']]}**"
        lines.append(
            f"| {r['sources']} | {100 * r['disputed']:.0f} % | {r['forward']:.1f} | {shown['subsets']} | "
            f"{shown['blocks']} | {shown['sampled']} | {r['sampled_error']:.1e} | {r['paper'] or '-'} |"
        )
    return "\n".join([*lines, ""])


def main() -> int:
    """Measure, write, and fail if the focus costs more than the forward passes at the largest number of sources."""
    parser = argparse.ArgumentParser(description="Seconds of KD3A's consensus focus")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    records = measure(device)
    if arguments.out:
        where = torch.cuda.get_device_name() if device.type == "cuda" else f"{arguments.threads} threads"
        machine = f"{device.type} ({where}, {platform.machine()}, torch {torch.__version__})"
        made = f"Made by `python benchmarks/kd3a.py --device {device.type}` at commit {commit()} on {machine}."
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / f"{device.type}.json").write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
        (arguments.out / f"{device.type}.md").write_text(markdown(records, made), encoding="utf-8")
    last = records[-1]
    return int(last[last["chosen"]] > last["forward"])


if __name__ == "__main__":
    sys.exit(main())
