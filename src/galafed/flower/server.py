"""The server app: passes questions on for the process that the user started, or does the whole run itself."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from galafed.flower.grid import GridQuestions
from galafed.sites import frames

PATIENCE = 60.0
"""Seconds that sites have to connect before the first question goes without them."""

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """With a relay in the run's configuration, serve it; else run what the configuration says."""
    questions = GridQuestions(grid, patience=PATIENCE, target=str(context.run_config.get("target", "")))
    if relay := context.run_config.get("relay"):
        with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(EOFError, ConnectionError):
            line.connect(str(relay))
            while True:
                _pass_on(line, questions)
    else:
        from galafed.flower.own_run import run

        run(questions, context)


def _pass_on(line: socket.socket, questions: GridQuestions) -> None:
    """One exchange: requests from the line to the sites, and each answer back as it comes."""
    header, bodies = frames.receive(line)
    requests = {name: bodies[place] for name, place in header["sites"].items()}

    def arrived(name: str, answer: bytes | None, reason: str) -> None:
        told: dict[str, Any] = {"site": name, "reason": reason}
        frames.send(line, told, [] if answer is None else [answer])

    questions.send(requests, float(header["timeout"]), arrived)
