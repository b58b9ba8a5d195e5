"""What a tracker is: told of a run as it goes, and unable to disturb it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from galafed.registry import Registry

if TYPE_CHECKING:
    from galafed.config import Run

Line = Mapping[str, Any]


class Sink(Protocol):
    """One tracker. Making it must fail where its library is missing; nothing else of it may stop a run."""

    name: ClassVar[str]

    def started(self, config: Run, folder: Path, history: Sequence[Line]) -> None:
        """A run begins, or goes on after the rounds of `history`, which were told before."""

    def round_done(self, line: Line) -> None:
        """A round is done and saved: a line of metrics.jsonl."""

    def finished(self, summary: Mapping[str, Any]) -> None:
        """The run is done: the content of summary.json."""

    def close(self) -> None:
        """Write out what is left; called once, however the run ended."""


sinks: Registry[type[Sink]] = Registry("tracker", "galafed.sinks")


def numbers(line: Line) -> dict[str, float]:
    """The numbers of a round by name: "accuracy", "relevance/svhn", "phase/train", "bytes/server"."""
    found: dict[str, float] = {}
    for key in ("loss", "tuned_loss", "discrepancy", "accuracy", "entropy", "information", "seconds"):
        if isinstance(value := line.get(key), int | float):
            found[key] = float(value)
    for table, prefix in (("relevance", "relevance"), ("similarity", "similarity"), ("phases", "phase")):
        found |= {f"{prefix}/{name}": float(value) for name, value in line.get(table, {}).items()}
    found |= {f"bytes/{who}": float(line["bytes"][who]) for who in ("source", "server", "target")}
    return found | {"failures": float(len(line["failures"]))}


def settings(config: Run) -> dict[str, Any]:
    """Every setting of a run under its dotted key."""
    flat: dict[str, Any] = {}
    for key, value in config.to_dict().items():
        flat |= {f"{key}.{name}": v for name, v in value.items()} if isinstance(value, dict) else {key: value}
    return flat


class Tracked:
    """An observer that tells a display and any number of trackers; a tracker that fails is left out with a notice."""

    def __init__(self, display: Any, trackers: Sequence[Sink]) -> None:
        self._display = display
        self._trackers = list(trackers)

    def started(self, config: Run, folder: Path, history: Sequence[Line], notes: Mapping[str, str]) -> None:
        self._display.started(config, folder, history, notes)
        self._tell(lambda tracker: tracker.started(config, folder, history))

    def phase(self, task: str, done: int, asked: int) -> None:
        self._display.phase(task, done, asked)

    def round_done(self, line: Line) -> None:
        self._display.round_done(line)
        self._tell(lambda tracker: tracker.round_done(line))

    def notice(self, text: str) -> None:
        self._display.notice(text)

    def finished(self, summary: Mapping[str, Any]) -> None:
        self._display.finished(summary)
        self._tell(lambda tracker: tracker.finished(summary))

    def close(self) -> None:
        """Close the trackers; the display belongs to the caller."""
        self._tell(lambda tracker: tracker.close())

    def _tell(self, message: Callable[[Sink], None]) -> None:
        for tracker in list(self._trackers):
            try:
                message(tracker)
            except Exception as error:  # whatever a tracker's library raises, the run goes on
                self._trackers.remove(tracker)
                self._display.notice(f"the tracker {tracker.name} failed and is left out: {error}")
