"""Draws the picture of a method's page from finished runs on mini: `python docs/method_picture.py RUN RUN PICTURE`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from galafed.runs.folders import load_config
from galafed.runs.records import metrics

TABLE = Path(__file__).parents[1] / "results/mini/table.json"
BOUNDS = {"source-only": "tab:gray", "source-only, target statistics": "tab:olive", "oracle": "tab:green"}


def draw(runs: Sequence[Path], path: Path) -> None:
    """Test accuracy over rounds, a panel for each run, with the measured bounds of its target as lines."""
    records = json.loads(TABLE.read_text(encoding="utf-8"))
    bounds = {(r["row"], r["column"]): r["mean"] for r in records if r["selection"] == "last"}
    figure = Figure(figsize=(8.4, 2.8), layout="constrained")
    panels = figure.subplots(1, len(runs), sharey=True, squeeze=False)[0]
    for panel, run in zip(panels, runs, strict=True):
        config, lines = load_config(run), metrics(run)
        panel.plot([line["round"] for line in lines], [100 * line["accuracy"] for line in lines])
        for row, colour in BOUNDS.items():
            panel.axhline(bounds[row, config.target], color=colour, linestyle="--", linewidth=1, label=row)
        panel.set(title=f"{config.algorithm} → {config.target}, seed {config.seed}", xlabel="round", ylim=(0, 102))
    panels[0].set_ylabel("test accuracy, %")
    panels[-1].legend(loc="lower right", fontsize="small")
    figure.savefig(path)


if __name__ == "__main__":
    *folders, picture = map(Path, sys.argv[1:])
    draw(folders, picture)
