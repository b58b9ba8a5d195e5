"""Draws the learning curve of a method's page from runs on `mini`: `python docs/methods/curve.py RUN [RUN ...]`.

One panel for each run (one target each); dashed are the last rounds of results/mini/table.json for the same target.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib import rcParams
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from galafed.runs.records import metrics, record

HERE = Path(__file__).parent
TABLE = HERE.parent.parent / "results" / "mini" / "table.json"
REFERENCES = {"source-only": "C7", "source-only, target statistics": "C0", "oracle": "C2"}


def draw(runs: list[Path]) -> Path:
    """One SVG for all runs, named after their algorithm."""
    rcParams["svg.hashsalt"] = "galafed"  # the same runs give the same file
    cells = {(r["row"], r["column"]): r["mean"] for r in json.loads(TABLE.read_text()) if r["selection"] == "last"}
    figure = Figure(figsize=(4.2 * len(runs), 2.8), layout="constrained")
    FigureCanvasSVG(figure)
    panels = figure.subplots(1, len(runs), squeeze=False, sharey=True)[0]
    for panel, folder in zip(panels, runs, strict=True):
        run, lines = record(folder), metrics(folder)
        panel.plot([line["round"] for line in lines], [100 * line["accuracy"] for line in lines], "C3", lw=1.5)
        for row, colour in REFERENCES.items():
            if (row, run["target"]) in cells:
                panel.axhline(cells[row, run["target"]], color=colour, ls="--", lw=1, label=row)
        panel.set(xlabel="round", title=f"{run['algorithm']} → {run['target']}, seed {run['seed']}", ylim=(0, 100))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("test accuracy, %")
    panels[-1].legend(fontsize=7, loc="lower right")
    path = HERE / "images" / f"{record(runs[0])['algorithm']}.svg"
    figure.savefig(path, metadata={"Date": None})
    return path


if __name__ == "__main__":
    draw([Path(argument) for argument in sys.argv[1:]])
