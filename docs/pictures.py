"""Draws the pictures of the README from a finished run: `python docs/pictures.py RUN`."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

import numpy
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from galafed.benchmarks.mini import Mini
from galafed.report.curves import draw_run
from galafed.report.live import panel
from galafed.runs.folders import load_config
from galafed.runs.records import metrics

HERE = Path(__file__).parent / "images"


def contact_sheet(path: Path, columns: int = 20, scale: int = 3) -> None:
    """Test images of every domain of mini, a row each, the digits in order."""
    rows = []
    for name in Mini.domains:
        test = Mini().load(name).test
        chosen = [int(numpy.flatnonzero(test.labels == k % 10)[k // 10]) for k in range(columns)]
        tiles = [numpy.pad(test.images[i], ((1, 1), (1, 1), (0, 0)), constant_values=110) for i in chosen]
        rows.append(numpy.concatenate(tiles, axis=1))
    sheet = Image.fromarray(numpy.concatenate(rows, axis=0))
    sheet.resize((sheet.width * scale, sheet.height * scale), Image.Resampling.NEAREST).save(path)


def live_panel(run: Path, path: Path) -> None:
    """The live display as it stands at the end of a run, as an SVG."""
    config, history = load_config(run), metrics(run)
    progress = Progress(TextColumn("round"), BarColumn(bar_width=None), MofNCompleteColumn(), expand=True)
    progress.add_task("round", total=config.rounds, completed=len(history))
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(panel(config, list(history), progress, "done", {}))
    path.write_text(console.export_svg(title="gala run"), encoding="utf-8")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    HERE.mkdir(exist_ok=True)
    contact_sheet(HERE / "mini.png")
    live_panel(folder, HERE / "live.svg")
    shutil.copyfile(draw_run(folder), HERE / "curves.png")
