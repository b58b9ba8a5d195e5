"""A whole run inside Flower's server process, for `flwr run` without `gala`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from galafed.config import read_toml, resolve, set_value
from galafed.engines.flower import inside
from galafed.flower.place import clear_simulation
from galafed.messages import Failure
from galafed.report.console import console
from galafed.report.live import PlainDisplay
from galafed.sites.parcel import LARGE, unwrap, wrap

if TYPE_CHECKING:
    from flwr.app import Context

    from galafed.engines.remote import Arrived
    from galafed.flower.grid import GridQuestions
    from galafed.sites.frames import Bytes

SETTINGS = ("benchmark", "algorithm", "target", "network", "rounds", "seed", "device")


class GridTransport:
    """Questions from this very process; Flower carries what is large, too."""

    def __init__(self, questions: GridQuestions) -> None:
        self._questions = questions

    def send(self, requests: Mapping[str, bytes], timeout: float | None, arrived: Arrived, largest: int) -> None:
        """Ask the sites."""
        wrapped = {id(request): wrap({}, request) for request in requests.values()}

        def opened(name: str, answer: bytes | Failure) -> None:
            arrived(name, answer if isinstance(answer, Failure) else _content(name, answer))

        messages: dict[str, Bytes] = {name: wrapped[id(request)] for name, request in requests.items()}
        wrapped.clear()
        self._questions.send(messages, timeout or 0.0, opened, largest + LARGE)

    def close(self) -> None:
        """Flower ends its processes itself."""


def _content(name: str, answer: bytes) -> bytes | Failure:
    try:
        return unwrap(answer)[1]
    except ValueError:
        return Failure(name, "", "invalid", "its answer is no message of ours")


def settings_of(run_config: Mapping[str, Any]) -> dict[str, Any]:
    """A run's settings from Flower's flat ones: those of a file first, then its own, then those after `set`."""
    file = run_config.get("config")
    values: dict[str, Any] = read_toml(Path(str(file))) if file else {}
    values |= {key: run_config[key] for key in SETTINGS if run_config.get(key)}
    if sources := run_config.get("sources"):  # Flower's settings know no lists
        values["sources"] = [name.strip() for name in str(sources).split(",")]
    for assignment in str(run_config.get("set", "")).split():
        set_value(values, assignment)
    return values | {"engine": "flower", "federation": ""}


def run(questions: GridQuestions, context: Context, patience: float) -> None:
    """Run what a Flower configuration says; a run that was interrupted goes on from its checkpoint."""
    from galafed.runs.runner import start

    run_config = context.run_config
    config = resolve(settings_of(run_config))
    questions.target = config.target
    questions.wait_for((*config.sources, config.target), patience)
    folder = Path(str(run_config.get("out") or Path("runs") / config.run_name)).absolute()
    console().print(f"the run's folder is {folder}")
    with inside(GridTransport(questions)):
        display: Any = PlainDisplay(console())
        start(config, folder, display)
    clear_simulation(context)
