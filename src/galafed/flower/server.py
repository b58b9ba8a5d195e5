"""The server app: passes questions on for the process that the user started, or does the whole run itself."""

from __future__ import annotations

import contextlib
import socket

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from galafed.flower.grid import GridQuestions
from galafed.flower.patience import hasten_grid
from galafed.messages import Failure
from galafed.sites import frames
from galafed.sites.relay import too_large

PATIENCE = 60.0
"""Seconds that sites have to connect before the run begins without them."""

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """With a relay in the run's configuration, serve it; else run what the configuration says."""
    hasten_grid()
    settings = context.run_config
    questions = GridQuestions(grid, target=str(settings.get("target", "")))
    if relay := settings.get("relay"):
        names = (*str(settings["sources"]).split(","), questions.target)
        questions.wait_for(filter(None, names), PATIENCE)
        with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(EOFError, ConnectionError):
            line.connect(str(relay))
            while True:
                _pass_on(line, questions)
    else:
        from galafed.flower.own_run import run

        run(questions, context, PATIENCE)


def _pass_on(line: socket.socket, questions: GridQuestions) -> None:
    """One exchange: requests from the line to the sites, and each answer back as it comes."""
    header, bodies = frames.receive(line)
    requests: dict[str, frames.Bytes] = {name: bodies[place] for name, place in header["sites"].items()}
    bodies.clear()
    largest = int(header["largest"])

    def arrived(name: str, answer: bytes | Failure) -> None:
        if not isinstance(answer, Failure) and (reason := too_large(len(answer), largest)):
            answer = Failure(name, "-", "invalid", reason)
        if isinstance(answer, Failure):
            frames.send(line, {"site": name, "kind": answer.kind, "reason": answer.reason})
        else:
            frames.send(line, {"site": name}, [answer])

    questions.send(requests, float(header["timeout"]), arrived, largest)
