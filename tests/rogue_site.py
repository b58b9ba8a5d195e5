"""What a rogue site answers, by name of its fault; imported by `sitecustomize.py` in the site's own worker.

One that drops, or is only "honest", has done a run by itself before its first question: many of them on few cores, all
doing everything for the first time at once, would not answer in time.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import galafed.sites.errand as errand
import galafed.sites.own_images  # noqa: F401 - what a site would import at its first question
import galafed.sites.parcel as parcel
from galafed.config import resolve
from galafed.messages import Reply
from galafed.runs.runner import start
from galafed.runs.seeding import seed_for
from galafed.sites import frames, wire
from galafed.sites.site import Site

HUGE = 2**30
SHARE = 0.3


def drops(site: str, round_number: int, task: str) -> bool:
    """Whether a site of thirty per cent drop-outs keeps silent on a question; tests know it as well."""
    return seed_for("drop", site, round_number, task) / 2**63 < SHARE


def seconds() -> float:
    """How long a site keeps silent: longer than it is waited for."""
    return float(os.environ["ROGUE_SECONDS"])


def first_tensor(change: Callable[[Any], Any]) -> Callable[[bytes], bytes]:
    """An answer with another first tensor of floats."""

    def altered(content: bytes) -> bytes:
        answer = wire.decode_answer(content)
        assert isinstance(answer.body, Reply)
        state = dict(answer.body.parts["extractor"])
        name = next(name for name, value in state.items() if value.is_floating_point())
        state[name] = change(state[name])
        parts = {**answer.body.parts, "extractor": state}
        return wire.encode(dataclasses.replace(answer, body=dataclasses.replace(answer.body, parts=parts)))

    return altered


def too_late(content: bytes) -> bytes:
    time.sleep(seconds())
    return content


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "nan": first_tensor(lambda value: value * float("nan")),
    "shape": first_tensor(lambda value: value[:1]),
    "late": too_late,
    "huge": lambda content: content + bytes(HUGE),
    "flood": lambda content: content + bytes(HUGE),
    "lie": lambda content: content,
    "twice": lambda content: content,
}
"""What becomes of the answer to `train`."""


def corrupt(fault: str) -> None:
    """Change this process."""
    handle = Site.handle
    if fault in ("drop", "honest"):
        with tempfile.TemporaryDirectory() as folder:
            start(resolve({"benchmark": "toy", "rounds": 1, "device": "cpu", "threads": 1}), Path(folder) / "run")

    def rogue(self: Site, request: bytes) -> bytes:
        body = wire.decode_request(request).body
        if not isinstance(body, wire.Ask):
            return handle(self, request)
        if fault == "honest":
            return handle(self, request)
        if fault == "drop":
            if drops(self.settings.name, body.round, body.task.name):
                time.sleep(seconds())
                return b""
            return handle(self, request)
        answer = handle(self, request)
        return CHANGES[fault](answer) if body.task.name == "train" else answer

    Site.handle = rogue  # type: ignore[method-assign]
    if fault == "flood":  # the large answer through FLARE's or Flower's own messages
        parcel.LARGE = 2**40
    if fault in ("lie", "twice"):  # even a small answer is left at the server
        parcel.LARGE = 100
        errand.Errand.leave = {"lie": lie, "twice": twice}[fault]  # type: ignore[method-assign]


LEAVE = errand.Errand.leave


def twice(self: errand.Errand, port: int, question: str, content: bytes) -> None:
    """Leave the answer, and then once more."""
    LEAVE(self, port, question, content)
    LEAVE(self, port, question, content)


def lie(self: errand.Errand, port: int, question: str, content: bytes) -> None:
    """Announce the answer that was asked for, and send a gigabyte."""
    line = self._connected(port)
    frames.send(line, {"put": question, "size": len(content)})
    frames.receive(line)
    line.sendall(content + bytes(HUGE))
