"""The command `gala` and its runs without the cost of processes, and a finished run to try it on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from PIL import Image

from galafed.benchmarks.base import benchmarks
from galafed.cli import main
from galafed.config import resolve
from galafed.runs.runner import Result, start

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Answer:
    """Exit code and what was said."""

    code: int
    out: str
    err: str


def gala(capsys: pytest.CaptureFixture[str], *arguments: object) -> Answer:
    """Run the command here; a traceback in it is a failure of the test."""
    before = signal.getsignal(signal.SIGTERM)
    capsys.readouterr()
    try:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
    finally:
        signal.signal(signal.SIGTERM, before)
    said = capsys.readouterr()
    return Answer(int(ended.value.code or 0), said.out, said.err)


def done_here(calls: Sequence[Callable[[], Any]], jobs: int) -> Iterator[tuple[int, Any]]:
    """What `galafed.runs.workers.shared_out` does, without the cost of processes."""
    for number, call in enumerate(calls):
        try:
            answer = call()
        except Exception as error:
            answer = error
        yield number, answer


@cache
def toy_run(algorithm: str = "gala", rounds: int = 3) -> Result:
    """A finished run on `toy`, made once a process; nobody may change its folder."""
    folder = Path(mkdtemp(prefix="galafed-toy-")) / "run"
    return start(resolve({"benchmark": "toy", "algorithm": algorithm, "rounds": rounds, "threads": 1}), folder)


def pictures(folder: Path, domain: str, count: int = 6) -> Path:
    """Test pictures of a domain of `toy` as FOLDER/CLASS/NUMBER.png."""
    toy: Any = benchmarks.get("toy")()
    split = toy.load(domain).test
    for number in range(count):
        place = folder / toy.classes[split.labels[number]]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(split.images[number]).save(place / f"{number}.png")
    return folder
