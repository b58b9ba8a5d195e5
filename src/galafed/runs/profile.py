"""The target's profile, taken once at the end of a run, so that predictions can say what is unlike anything seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import safetensors
from safetensors import safe_open
from safetensors.torch import save as bytes_of

from galafed.errors import QuorumError
from galafed.model import State
from galafed.runs.assembly import Assembly
from galafed.runs.checkpoint import Checkpoint
from galafed.runs.files import write_atomically
from galafed.tasks import profile

PROFILE = "profile.safetensors"


def take_profile(folder: Path, assembly: Assembly, final: Checkpoint, notice: Callable[[str], None]) -> None:
    """Ask the target what its images look like to the final model; class means and quantiles are all it sends."""
    federation, model = assembly.federation, final.tested or final.model
    readout = assembly.algorithm.readout(federation.domains).present(model.parts)
    federation.begin_round(final.rounds_done)
    task = profile(paths=[list(path) for path in readout.paths], rule=readout.rule)
    try:
        found = federation.ask(federation.target, task, {part: model.parts[part] for part in readout.parts})
    except QuorumError as error:
        notice(f"predictions will not tell what is unlike anything seen: {error}")
        return
    state = {name: value.cpu().contiguous() for name, value in found["profile"][federation.target].items()}
    write_atomically(folder / PROFILE, bytes_of(state, {"digest": model.digest()}))


def read_profile(folder: Path, digest: str) -> State | None:
    """The profile of the model with this digest; none of a run of an earlier version, or where the file is damaged."""
    try:
        with safe_open(folder / PROFILE, framework="pt") as file:
            if (file.metadata() or {}).get("digest") != digest:
                return None
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dictionary
    except (OSError, safetensors.SafetensorError):
        return None
