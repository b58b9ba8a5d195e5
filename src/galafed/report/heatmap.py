"""The cross-domain accuracy matrix as a heat map, like the paper's."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence


def heatmap(title: str, names: Sequence[str], matrix: Sequence[Sequence[float]]) -> bytes:
    """A PNG of accuracies [trained on, tested on] in 0..1, written into their cells in percent."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = len(names)
    side = max(5.0, 0.52 * count + 2.5)
    figure = Figure(figsize=(side + 0.6, side), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    drawn = axes.imshow([[100 * value for value in row] for row in matrix], cmap="viridis", vmin=0, vmax=100)
    # Names are shown as they are: a dollar sign would begin a formula.
    plain = [name.replace("$", r"\$") for name in names]
    axes.set_xticks(range(count), plain, rotation=45, ha="right", rotation_mode="anchor", fontsize=8)
    axes.set_yticks(range(count), plain, fontsize=8)
    axes.set(xlabel="tested on", ylabel="trained on")
    axes.set_title(title.replace("$", r"\$"), fontsize=10)
    for row, values in enumerate(matrix):
        for column, value in enumerate(values):
            shade = "black" if value > 0.6 else "white"
            axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", color=shade, fontsize=8)
    figure.colorbar(drawn, ax=axes, label="test accuracy, %", shrink=0.8)
    buffer = io.BytesIO()
    with warnings.catch_warnings():  # a letter that the font lacks is drawn as a box, which is warning enough
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(buffer, dpi=120, format="png")
    return buffer.getvalue()
