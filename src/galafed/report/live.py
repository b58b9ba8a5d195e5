"""Watching a run: a live panel in a terminal, a plain line a round in a pipe."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from galafed.config import Run
from galafed.report.words import bar, duration, number, percent, sparkline, title, with_note

PHASES = {
    "centroids": "class centroids",
    "train": "local training",
    "tune": "fine-tuning heads",
    "align": "aligning the target",
    "hold": "sending the first model",
    "profile": "describing the target's images",
}


class Eta:
    """Time left, from the mean of the rounds seen by this process."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._rounds = 0

    def round_done(self) -> None:
        """Count a round."""
        self._rounds += 1

    def left(self, rounds: int) -> str:
        """How long that many rounds will take."""
        if not self._rounds:
            return "…"
        return duration((time.monotonic() - self._started) / self._rounds * rounds)


class PlainDisplay:
    """One line a round, for pipes and logs."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def started(
        self, config: Run, folder: Path, history: tuple[Mapping[str, Any], ...], notes: Mapping[str, str]
    ) -> None:
        self._config = config
        self._eta = Eta()
        self._write(title(config, notes))
        if stand_ins := [with_note(name, notes[name]) for name in config.sources if notes.get(name)]:
            self._write(f"sources that are not the published data: {', '.join(stand_ins)}")
        if history:
            self._write(f"going on after round {history[-1]['round']} of {config.rounds}")

    def phase(self, task: str, done: int, asked: int) -> None:
        """Nothing: a line a round is enough."""

    def round_done(self, line: Mapping[str, Any]) -> None:
        self._eta.round_done()
        left = self._eta.left(self._config.rounds - line["round"])
        self._write(
            f"round {line['round']:>3}/{self._config.rounds}  loss {number(line['loss'])}  "
            f"discrepancy {number(line['discrepancy'])}  accuracy {percent(line['accuracy'])}  left {left}"
        )
        for failure in line["failures"]:
            self.notice("{client}: excluded from {task} ({kind}): {reason}".format(**failure))

    def notice(self, text: str) -> None:
        self._write(f"note: {text}")

    def finished(self, summary: Mapping[str, Any]) -> None:
        """The command prints the summary."""

    def close(self) -> None:
        """Nothing to put away."""

    def _write(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


class LiveDisplay:
    """A panel with progress, time left, loss, discrepancy, accuracy, and a bar of relevance for each source."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    def started(
        self, config: Run, folder: Path, history: tuple[Mapping[str, Any], ...], notes: Mapping[str, str]
    ) -> None:
        self._config = config
        self._notes = notes
        self._history = list(history)
        self._eta = Eta()
        self._phase = "starting"
        self._progress = Progress(
            TextColumn("round"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left {task.fields[left]}"),
            expand=True,
        )
        self._bar = self._progress.add_task("round", total=config.rounds, completed=len(history), left="…")
        self._live = Live(self._view(), console=self._console, refresh_per_second=8)
        self._live.start()

    def phase(self, task: str, done: int, asked: int) -> None:
        self._phase = f"{PHASES.get(task, task)} {done}/{asked}"
        self._refresh()

    def round_done(self, line: Mapping[str, Any]) -> None:
        self._eta.round_done()
        self._history.append(line)
        left = self._eta.left(self._config.rounds - line["round"])
        self._progress.update(self._bar, completed=line["round"], left=left)
        for failure in line["failures"]:
            self.notice("{client}: excluded from {task} ({kind}): {reason}".format(**failure))
        self._refresh()

    def notice(self, text: str) -> None:
        self._console.print(f"[yellow]note:[/] {text}")

    def finished(self, summary: Mapping[str, Any]) -> None:
        self._phase = "done"
        self._refresh()

    def close(self) -> None:
        """Leave the last picture on the screen."""
        if self._live is not None:
            self._live.stop()

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.update(self._view())

    def _view(self) -> Panel:
        return panel(self._config, self._history, self._progress, self._phase, self._notes)


def panel(config: Run, history: list[Mapping[str, Any]], progress: Any, phase: str, notes: Mapping[str, str]) -> Panel:
    """The live picture of a run."""
    last = history[-1] if history else None
    numbers = Table.grid(padding=(0, 3))
    numbers.add_row(
        f"loss [bold]{number(last['loss'] if last else None)}[/]",
        f"discrepancy [bold]{number(last['discrepancy'] if last else None)}[/]",
        f"accuracy [bold green]{percent(last['accuracy'] if last else None)}[/]",
        Text(sparkline([line["accuracy"] for line in history if line["accuracy"] is not None]), style="green"),
    )
    relevance = Table(box=None, padding=(0, 1), expand=True, header_style="dim")
    relevance.add_column("source")
    relevance.add_column("relevance to the target", ratio=1)
    relevance.add_column("", justify="right")
    weights = last["relevance"] if last else {}
    top = max(weights.values(), default=1.0)
    # A single source is cut into two clients, and pooled sources are one: then the clients' own names are shown.
    names = config.sources if set(weights) <= set(config.sources) else sorted(weights)
    for source in names:
        weight = weights.get(source)
        name, shown = with_note(source, notes.get(source, "")), Text(bar((weight or 0) / top, 40), style="cyan")
        relevance.add_row(name, shown, "-" if weight is None else f"{weight:.3f}")
    return Panel(
        Group(progress, numbers, "", relevance), title=title(config, notes), subtitle=phase, border_style="blue"
    )
