"""What a site must not lose when its worker is killed: what its client keeps for the round and for the run.

A version is written after each task that changed anything, named by round and question. A question that is asked again
finds the version before it; a server that went back some rounds finds what was kept before those.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save

from galafed.client import Memory
from galafed.errors import SaveError
from galafed.model import State
from galafed.runs.files import explained, remove, write_atomically

OPENED = "open.json"


class Forgotten(Exception):
    """The server went back further than a site remembers."""


class Diary:
    """The versions of one run in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: dict[str, Any] = {}
        path = folder / OPENED
        if path.exists():
            try:
                self._opened = json.loads(path.read_bytes())
            except (OSError, ValueError) as error:
                raise SaveError(f"{path} cannot be read ({error}); remove the folder {folder}") from None

    @property
    def attempt(self) -> str:
        """The attempt that was opened last, or nothing."""
        return str(self._opened.get("attempt", ""))

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration the run was opened with."""
        config: Mapping[str, Any] = self._opened.get("config", {})
        return config

    def open(self, attempt: str, config: Mapping[str, Any], rounds_done: int) -> None:
        """Begin an attempt: rounds from `rounds_done` on are done again, and what was kept in them is void."""
        if attempt == self.attempt:
            return
        with explained(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        for number, _, path in self._versions():
            if number >= rounds_done:
                remove(path)
        pruned = self._opened.get("pruned", 0) if rounds_done else 0
        self._write(attempt=attempt, config=dict(config), pruned=pruned)

    def recall(self, round_number: int, sequence: int) -> Memory:
        """What the client kept before this question."""
        earlier = [v for v in self._versions() if v[0] < round_number or (v[0] == round_number and v[1] < sequence)]
        if not earlier:
            if round_number < self._opened.get("pruned", 0):
                raise Forgotten(f"it no longer has what it kept before round {round_number + 1}")
            return Memory(current_round=round_number)
        number, _, path = earlier[-1]
        try:
            tensors = load(path.read_bytes())
        except (OSError, SafetensorError) as error:
            raise Forgotten(f"what it kept in round {number + 1} cannot be read ({error})") from None
        memory = Memory(current_round=round_number)
        for key, value in tensors.items():
            kind, part, name = key.split("|")
            if kind == "rows" and number == round_number:
                memory.rows.setdefault(part, {})[name] = value
            elif kind == "run" or (kind == "round" and number == round_number):
                place: dict[str, State] = getattr(memory, kind)
                place.setdefault(part, {})[name] = value
        return memory

    def keep(self, memory: Memory, sequence: int, rounds: int) -> None:
        """Write down what the client keeps after a question, and drop what no question of `rounds` rounds can need."""
        tensors = {
            f"{kind}|{part}|{name}": value.detach().cpu().contiguous()
            for kind, parts in (("round", memory.round), ("run", memory.run), ("rows", memory.rows))
            for part, state in parts.items()
            for name, value in state.items()
        }
        tensors = {key: value.clone() for key, value in tensors.items()}  # two parts may share memory
        write_atomically(self.folder / f"at-{memory.current_round:05d}-{sequence:08d}.safetensors", save(tensors))
        self._prune(memory.current_round, rounds)

    def _prune(self, current: int, rounds: int) -> None:
        versions = self._versions()
        newest: dict[int, list[Path]] = {}
        for number, _, path in versions:
            newest.setdefault(number, []).append(path)
        oldest = sorted(newest)[-rounds - 1 :][0]
        if oldest > min(newest):
            self._write(**{**self._opened, "pruned": oldest + 1})
        for number, paths in newest.items():
            kept = 0 if number < oldest else 2 if number == current else 1
            for path in paths[: len(paths) - kept]:
                remove(path)

    def _versions(self) -> list[tuple[int, int, Path]]:
        """(round, question, file) of every version, oldest first."""
        found = []
        for path in sorted(self.folder.glob("at-*-*.safetensors")):
            _, number, sequence = path.stem.split("-")
            found.append((int(number), int(sequence), path))
        return found

    def _write(self, **opened: Any) -> None:
        self._opened = opened
        write_atomically(self.folder / OPENED, json.dumps(opened).encode())
