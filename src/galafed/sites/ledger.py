"""What left the building, and what came in: one line for each payload, kept at the site and in the run's folder."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from galafed.runs.files import explained

Direction = Literal["in", "out"]
"""As the site sees it."""

ESSENTIAL = {"site", "round", "task", "direction", "bytes", "sha256", "tensors", "numbers"}
"""What every line has."""


class Pages(NamedTuple):
    """What a ledger holds: lines, and the numbers of those that were cut short, as by a kill, or are damaged."""

    lines: list[dict[str, Any]]
    cut: list[int]
    damaged: list[int]


class Ledger:
    """A file of lines that only grows."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *lines: Mapping[str, Any]) -> None:
        """Add lines, whole: what crossed is written down before it is answered."""
        text = "".join(json.dumps(dict(line)) + "\n" for line in lines)
        with explained(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                # A kill may have cut the last line short: what comes now is a line of its own.
                whole = size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
                content = text.encode() if whole else b"\n" + text.encode()
                while content:
                    content = content[os.write(descriptor, content) :]
            finally:
                os.close(descriptor)

    def read(self) -> Pages:
        """What the file holds."""
        pages = Pages([], [], [])
        for number, text in enumerate(self.path.read_bytes().split(b"\n") if self.path.exists() else (), start=1):
            if not text:
                continue
            try:
                line = dict(json.loads(text))
                if ESSENTIAL - line.keys():
                    raise ValueError(line)
                pages.lines.append(line)
            except (ValueError, TypeError):
                cut = text.startswith(b'{"time": ') and not text.endswith(b"}")
                (pages.cut if cut else pages.damaged).append(number)
        return pages


class Books:
    """A run's ledgers, a file for each site; lines from before the run has a folder wait for it."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._waiting: deque[Mapping[str, Any]] = deque(maxlen=1000)
        self._later: dict[str, list[Mapping[str, Any]]] = {}

    def keep_in(self, folder: Path) -> None:
        """Write into this folder from now on."""
        self._folder = folder
        while self._waiting:
            self.write(self._waiting.popleft())

    def write(self, line: Mapping[str, Any]) -> None:
        """Add a line to the ledger of its site."""
        if self._folder is None:
            self._waiting.append(line)
        else:
            self._ledger(line["site"]).write(line)

    def later(self, line: Mapping[str, Any]) -> None:
        """Add a line with the next `flush`, for what crossed no border: many clients are many files."""
        if self._folder is None:
            self._waiting.append(line)
        else:
            self._later.setdefault(line["site"], []).append(line)

    def flush(self) -> None:
        """Write the lines of `later`."""
        for site, lines in self._later.items():
            self._ledger(site).write(*lines)
        self._later.clear()

    def _ledger(self, site: str) -> Ledger:
        if self._folder is None:
            raise ValueError("a run without a folder has no ledgers")
        return Ledger(self._folder / f"{file_name(site)}.jsonl")


def file_name(name: str) -> str:
    """A name that somebody else chose, as the name of a file."""
    return "".join(c if c.isalnum() or c in "-_.#" else "_" for c in name).lstrip(".")[:80] or "_"


def entry(
    *,
    site: str,
    round_number: int,
    task: str,
    direction: Direction,
    sha256: str | None,
    tensors: Mapping[str, Any],
    size: int,
    sequence: int = 0,
    numbers: Iterable[str] = (),
    note: str = "",
) -> dict[str, Any]:
    """One line: rounds are counted from 1 for people; `sha256` is that of the message, where one was encoded."""
    line = {
        "time": round(time.time(), 3),
        "site": site,
        "round": round_number + 1,
        "task": task,
        "direction": direction,
        "sequence": sequence,
        "bytes": size,
        "sha256": sha256,
        "tensors": dict(tensors),
        "numbers": sorted(numbers),
    }
    return line | ({"note": note} if note else {})


def facts_of(content: bytes | Path) -> dict[str, Any]:
    """What a ledger says of a message, as arguments of `entry`."""
    from galafed.sites import wire  # imports torch, which most readers of a ledger do without

    header = wire.header_of(content)
    return {
        "sha256": fingerprint(content),
        "tensors": wire.tensors_of(content),
        "size": content.stat().st_size if isinstance(content, Path) else len(content),
        "numbers": header.get("metrics", {}),
        "note": header.get("reason", ""),
    }


def fingerprint(content: bytes | Path) -> str:
    """The sha256 of a message."""
    if isinstance(content, Path):
        with content.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(content).hexdigest()
