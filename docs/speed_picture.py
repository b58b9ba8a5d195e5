"""Draws docs/images/speed.svg from results/speed/table.json: `python docs/speed_picture.py`."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "galafed"
from matplotlib import pyplot  # noqa: E402

ROOT = Path(__file__).parent.parent
PHASES = ("centroids", "train", "tune", "align", "evaluation")


def main() -> None:
    """Bars of seconds a round, cut into phases."""
    lines = json.loads((ROOT / "results/speed/table.json").read_text())
    shown = [line for line in lines if line["engine"] == "stacked"]
    names = [f"{line['algorithm'].upper()} {line['sources']}" for line in shown]
    figure, axes = pyplot.subplots(figsize=(7, 3))
    bottom = [0.0] * len(shown)
    for phase in PHASES:
        heights = [line["phases"].get(phase, 0.0) for line in shown]
        axes.bar(names, heights, bottom=bottom, label=phase)
        bottom = [low + high for low, high in zip(bottom, heights, strict=True)]
    rest = [line["seconds_per_round"] - low for line, low in zip(shown, bottom, strict=True)]
    axes.bar(names, rest, bottom=bottom, label="server", color="0.7")
    axes.set_ylabel("seconds a round")
    axes.set_title(f"algorithm and sources, {shown[0]['device']}, bfloat16")
    axes.legend()
    figure.tight_layout()
    figure.savefig(ROOT / "docs/images/speed.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
