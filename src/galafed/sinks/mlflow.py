"""MLflow: to the server that $MLFLOW_TRACKING_URI names, or to the folder `mlruns` where the command is run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.extras import need
from galafed.runs.files import write_atomically
from galafed.sinks.base import Line, numbers, settings, sinks

if TYPE_CHECKING:
    from galafed.config import Run

EXPERIMENT = "galafed"
NUMBER = "mlflow-run.txt"
"""In the run's folder: under which number MLflow keeps it, so that a resumed run goes on there."""


@sinks.register("mlflow")
class MLflow:
    """Parameters, metrics by round, the three accuracies at the end."""

    name: ClassVar[str]

    def __init__(self) -> None:
        if (
            "MLFLOW_TRACKING_URI" not in os.environ
        ):  # plain files need no data base, and MLflow wants to be asked for them
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        self._library: Any = need("mlflow", extra="mlflow")
        self._client: Any = None
        self._run = ""
        self._state = "FAILED"

    def started(self, config: Run, folder: Path, history: Sequence[Line]) -> None:
        place = os.environ.get("MLFLOW_TRACKING_URI") or Path("mlruns").resolve().as_uri()
        self._client = self._library.MlflowClient(tracking_uri=place)
        known = folder / NUMBER
        if known.is_file():
            self._run = known.read_text(encoding="utf-8").strip()
            return
        found = self._client.get_experiment_by_name(EXPERIMENT)
        number = found.experiment_id if found else self._client.create_experiment(EXPERIMENT)
        self._run = self._client.create_run(number, run_name=folder.name).info.run_id
        write_atomically(known, f"{self._run}\n".encode())
        for key, value in settings(config).items():
            self._client.log_param(self._run, key, value)

    def round_done(self, line: Line) -> None:
        for name, value in numbers(line).items():
            # A half of a source is called "hand#1", which MLflow would refuse.
            self._client.log_metric(self._run, re.sub(r"[^\w\-. /]", "_", name), value, step=line["round"])

    def finished(self, summary: Mapping[str, Any]) -> None:
        for name, value in summary["accuracy"].items():
            if value is not None:
                self._client.log_metric(self._run, f"final/{name}", value)
        self._client.set_tag(self._run, "digest", summary["digest"])
        self._state = "FINISHED"

    def close(self) -> None:
        if self._run:
            self._client.set_terminated(self._run, self._state)
