"""TensorBoard: event files in the run's folder; `tensorboard --logdir runs` shows every run beside the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.extras import need
from galafed.sinks.base import Line, numbers, settings, sinks

if TYPE_CHECKING:
    from galafed.config import Run

FOLDER = "tensorboard"


@sinks.register("tensorboard")
class TensorBoard:
    """Scalars by round, the configuration as text."""

    name: ClassVar[str]

    def __init__(self) -> None:
        need("tensorboard", extra="tensorboard")
        from torch.utils.tensorboard.writer import SummaryWriter

        self._make: Any = SummaryWriter
        self._writer: Any = None

    def started(self, config: Run, folder: Path, history: Sequence[Line]) -> None:
        # Rounds that were undone and are done again replace those of the earlier life.
        again = history[-1]["round"] + 1 if history else None
        self._writer = self._make(str(folder / FOLDER), purge_step=again)
        if not history:
            lines = "\n".join(f"    {key} = {value}" for key, value in settings(config).items())
            self._writer.add_text("configuration", lines, 0)

    def round_done(self, line: Line) -> None:
        for name, value in numbers(line).items():
            self._writer.add_scalar(name, value, line["round"])
        self._writer.flush()

    def finished(self, summary: Mapping[str, Any]) -> None:
        self._writer.add_text("digest", str(summary["digest"]), summary["rounds"])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
