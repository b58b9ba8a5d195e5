"""Pictures of several panels."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACROSS = 3
"""How many panels stand side by side."""
WIDTH, LETTERS = 4.2, 60
"""Of a panel, in inches, and in letters of what stands above it."""


def picture(title: str, panels: Sequence[str], draw: Callable[[Axes, str], None], *, height: float = 3.2) -> bytes:
    """A PNG of panels so many inches high, each drawn by `draw` and headed by its name."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = min(len(panels), ACROSS)
    down = -(-len(panels) // across)
    with rc_context({"text.parse_math": False}):  # a $ in somebody's name is a dollar
        figure = Figure(figsize=(WIDTH * across, height * down), layout="constrained")
        FigureCanvasAgg(figure)
        places = figure.subplots(down, across, squeeze=False).flatten()
        for axes, panel in zip(places, panels, strict=False):
            axes.set_title("\n".join(wrap(panel, LETTERS)), fontsize=9)
            axes.grid(alpha=0.3)
            draw(axes, panel)
        for axes in places[len(panels) :]:
            axes.set_axis_off()
        lines = [line for part in title.splitlines() for line in wrap(part, LETTERS * across)]
        figure.suptitle("\n".join(lines), fontsize=10)
        buffer = io.BytesIO()
        figure.savefig(buffer, dpi=110, format="png")
    return buffer.getvalue()
