"""Pictures of a run: accuracy and discrepancy over rounds, and the relevance of each source."""

from __future__ import annotations

import io
from pathlib import Path

from galafed.report.words import with_note
from galafed.runs.files import write_atomically
from galafed.runs.records import metrics, record


def draw_run(folder: Path) -> Path:
    """Draw `curves.png` from a run's metrics.jsonl and return its path."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines, run = metrics(folder), record(folder)
    notes = run.get("notes", {})
    target = with_note(run["target"], notes.get(run["target"], ""))
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    tested = [line for line in lines if line["accuracy"] is not None]
    left.plot([line["round"] for line in tested], [100 * line["accuracy"] for line in tested], "o-", ms=3, color="C2")
    left.set(
        xlabel="round",
        ylabel="test accuracy, %",
        ylim=(0, 100),
        title=f"{run['algorithm']} → {target}",
    )
    left.yaxis.label.set_color("C2")
    left.grid(alpha=0.3)
    aligned = [line for line in lines if line["discrepancy"] is not None]
    if aligned:
        other = left.twinx()
        other.plot(
            [line["round"] for line in aligned], [line["discrepancy"] for line in aligned], "--", color="C3", lw=1
        )
        other.set(ylabel="discrepancy on the target (no labels)", ylim=(0, None))
        other.yaxis.label.set_color("C3")
    for source in sorted({source for line in lines for source in line["relevance"]}):
        points = [(line["round"], line["relevance"].get(source, 0.0)) for line in lines]
        right.plot(*zip(*points, strict=True), lw=1.3, label=with_note(source, notes.get(source, "")))
    right.set(xlabel="round", title="relevance of each source", ylim=(0, None))
    right.grid(alpha=0.3)
    if right.lines:
        right.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1))
    picture = io.BytesIO()
    figure.savefig(picture, dpi=110, format="png")
    write_atomically(folder / "curves.png", picture.getvalue())
    return folder / "curves.png"
