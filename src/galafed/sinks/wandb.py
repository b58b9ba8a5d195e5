"""Weights & Biases: offline unless $WANDB_MODE says otherwise; `wandb sync` sends a run later, if its owner wants."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.extras import need
from galafed.sinks.base import Line, numbers, settings, sinks

if TYPE_CHECKING:
    from galafed.config import Run

PROJECT = "galafed"


@sinks.register("wandb")
class Wandb:
    """Configuration, numbers by round, and the summary, in the run's folder."""

    name: ClassVar[str]

    def __init__(self) -> None:
        self._library: Any = need("wandb", extra="wandb")
        self._run: Any = None

    def started(self, config: Run, folder: Path, history: Sequence[Line]) -> None:
        self._run = self._library.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=folder.name,
            id=config.hash()[:16],
            resume="allow",
            dir=str(folder),
            config=settings(config),
            mode=os.environ.get("WANDB_MODE", "offline"),
            settings=self._library.Settings(silent=True, console="off", disable_git=True, save_code=False),
        )

    def round_done(self, line: Line) -> None:
        self._run.log(numbers(line), step=line["round"])

    def finished(self, summary: Mapping[str, Any]) -> None:
        self._run.summary.update({f"final/{name}": value for name, value in summary["accuracy"].items()})
        self._run.summary["digest"] = summary["digest"]

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
