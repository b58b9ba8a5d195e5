"""A whole run inside Flower's server process, for `flwr run` without `gala`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from galafed.config import resolve, set_value
from galafed.engines.flower import inside
from galafed.messages import Failure
from galafed.report.console import console
from galafed.report.live import PlainDisplay

if TYPE_CHECKING:
    from galafed.flower.grid import GridQuestions

NOT_SETTINGS = ("out", "relay", "workspace", "workers")


class GridTransport:
    """Questions from this very process."""

    def __init__(self, questions: GridQuestions) -> None:
        self._questions = questions

    def send(
        self, requests: Mapping[str, bytes], timeout: float | None, arrived: Callable[[str, bytes | Failure], None]
    ) -> None:
        """Ask the sites."""

        def told(name: str, answer: bytes | None, reason: str) -> None:
            arrived(name, Failure(name, "-", "lost", reason) if answer is None else answer)

        self._questions.send(requests, timeout or 0.0, told)

    def close(self) -> None:
        """Flower ends its processes itself."""


def run(questions: GridQuestions, run_config: Mapping[str, Any]) -> None:
    """Run what a Flower configuration says; a run that was interrupted goes on from its checkpoint."""
    from galafed.runs.runner import start

    values: dict[str, Any] = {"engine": "flower"}
    for key, value in run_config.items():
        if key not in NOT_SETTINGS and value != "":
            set_value(values, f"{key}={str(value).lower() if isinstance(value, bool) else value}")
    config = resolve(values)
    questions.target = config.target
    folder = Path(str(run_config.get("out") or Path("runs") / config.run_name)).absolute()
    console().print(f"the run's folder is {folder}")
    with inside(GridTransport(questions)):
        display: Any = PlainDisplay(console())
        start(config, folder, display)
