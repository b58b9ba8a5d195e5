"""Checkpoints: one folder a round, tensors as safetensors, everything else in a manifest, all under checksums.

A checkpoint appears under its name only when it is complete, and is believed only when every checksum holds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of

from galafed.errors import CheckpointError
from galafed.model import Model, State
from galafed.runs.files import explained, new_folder, remove, remove_leftovers, write_durably
from galafed.runs.folders import CHECKPOINTS

MANIFEST = "manifest.json"
FORMAT = 1
"""Of what is written here; a later version may write another."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """All that a run needs to go on: the rounds done, the models, what clients keep, and the metrics so far."""

    rounds_done: int
    config_hash: str
    model: Model
    tested: Model | None = None
    clients: Mapping[str, Mapping[str, State]] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()
    bytes_before: int = 0
    """What was sent before the first round."""


class DamagedError(Exception):
    """A checkpoint that is not what was written; the message says in which way."""


def save(run_folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, atomically."""
    folder = run_folder / CHECKPOINTS
    with explained(folder):
        folder.mkdir(exist_ok=True)
    path = folder / _name(checkpoint.rounds_done)
    if path.exists():  # a damaged one of an earlier life; it was passed over when the run was resumed
        remove(path)
    tensors = {"model": _flat(checkpoint.model.parts)}
    if checkpoint.tested is not None:
        tensors["tested"] = _flat(checkpoint.tested.parts)
    if checkpoint.clients:
        tensors["clients"] = _flat(
            {f"{client}|{part}": state for client, kept in checkpoint.clients.items() for part, state in kept.items()}
        )
    with new_folder(path) as temporary:
        files = {}
        for name, flat in tensors.items():
            content = bytes_of(flat)
            files[f"{name}.safetensors"] = hashlib.sha256(content).hexdigest()
            write_durably(temporary / f"{name}.safetensors", content)
        body = {
            "format": FORMAT,
            "rounds_done": checkpoint.rounds_done,
            "config_hash": checkpoint.config_hash,
            "tag": checkpoint.model.tag,
            "files": files,
            "bytes_before": checkpoint.bytes_before,
            "history": list(checkpoint.history),
        }
        manifest = {"body": body, "sha256": _fingerprint(body)}
        write_durably(temporary / MANIFEST, json.dumps(manifest).encode())


def load(path: Path) -> Checkpoint:
    """Read a checkpoint and verify every byte; raises `DamagedError` saying what is wrong."""
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        body = manifest["body"]
        if manifest["sha256"] != _fingerprint(body):
            raise DamagedError(f"{MANIFEST} does not match its checksum")
        if body["format"] != FORMAT:
            raise DamagedError(f"it has format {body['format']}, of another version of this program")
        if path.name != _name(body["rounds_done"]):
            raise DamagedError(f"it is of round {body['rounds_done']}, which its name does not say")
        content = {name: (path / name).read_bytes() for name in body["files"]}
    except FileNotFoundError as error:
        raise DamagedError(f"{Path(error.filename).name} is missing") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{MANIFEST} cannot be read ({type(error).__name__})") from None
    for name, expected in body["files"].items():
        if hashlib.sha256(content[name]).hexdigest() != expected:
            raise DamagedError(f"{name} does not match its checksum")
    states = {name.removesuffix(".safetensors"): _nested(content[name]) for name in content}
    clients: dict[str, dict[str, State]] = {}
    for key, state in states.get("clients", {}).items():
        client, _, part = key.partition("|")
        clients.setdefault(client, {})[part] = state
    return Checkpoint(
        rounds_done=body["rounds_done"],
        config_hash=body["config_hash"],
        model=Model(states["model"], tag=body["tag"]),
        tested=Model(states["tested"]) if "tested" in states else None,
        clients=clients,
        history=tuple(body["history"]),
        bytes_before=body["bytes_before"],
    )


def newest_valid(run_folder: Path) -> tuple[Checkpoint, list[str]]:
    """The newest checkpoint that holds, and a sentence for each newer one that does not.

    Raises `CheckpointError` where none holds: a run is never started afresh behind the user's back.
    """
    damaged: list[str] = []
    for path in reversed(existing(run_folder)):
        try:
            return load(path), damaged
        except DamagedError as error:
            damaged.append(f"checkpoint {path.name} is damaged: {error}")
    what = "; ".join(damaged) or f"{run_folder / CHECKPOINTS} holds no checkpoint"
    raise CheckpointError(
        f"no valid checkpoint in {run_folder}: {what}. Restore the folder from a copy, or start again with "
        f"'gala run --config {run_folder / 'config.toml'} --out NEW_FOLDER'"
    )


def existing(run_folder: Path) -> list[Path]:
    """The checkpoint folders of a run, oldest first."""
    return sorted((run_folder / CHECKPOINTS).glob("round-*"))


def prune(run_folder: Path, *, done: int, keep: int, pinned: Iterable[int] = ()) -> None:
    """Remove all but the newest checkpoints and the pinned rounds, and what interrupted saves left behind.

    Those of rounds that are still to be done are damaged, or the run would have gone on from there: they do not count,
    and are replaced when it is there again.
    """
    kept = {_name(number) for number in pinned}
    for path in [path for path in existing(run_folder) if path.name <= _name(done)][:-keep]:
        if path.name not in kept:
            remove(path)
    remove_leftovers(run_folder / CHECKPOINTS)


def _name(rounds_done: int) -> str:
    return f"round-{rounds_done:05d}"


def _flat(parts: Mapping[str, State]) -> dict[str, Any]:
    # The separator cannot occur in the name of a tensor, a part or a client.
    return {f"{part}|{name}": v.detach().cpu().contiguous() for part, s in parts.items() for name, v in s.items()}


def _nested(content: bytes) -> dict[str, State]:
    parts: dict[str, State] = {}
    for key, value in tensors_of(content).items():
        part, _, name = key.rpartition("|")
        parts.setdefault(part, {})[name] = value
    return parts


def _fingerprint(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
