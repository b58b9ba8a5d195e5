"""Public weights of pretrained networks, from a safetensors file; nothing else is read, for nothing else is safe."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from galafed.benchmarks.store import cache_folder
from galafed.errors import DataError
from galafed.model import Schema, State

FOLDER = "weights"


def places(name: str) -> tuple[Path, ...]:
    """Where the weights of a network are looked for: `$GALAFED_DATA/weights`, then the cache folder."""
    chosen = os.environ.get("GALAFED_DATA")
    folders = ([Path(chosen).expanduser()] if chosen else []) + [cache_folder()]
    return tuple(folder / FOLDER / f"{name}.safetensors" for folder in folders)


def load(name: str, schema: Schema, remedy: str) -> State:
    """The tensors a schema names, from the first file there is; `remedy` tells where to get a missing one."""
    path = next((path for path in places(name) if path.is_file()), None)
    if path is None:
        looked = " and ".join(str(path) for path in places(name))
        raise DataError(f"the pretrained weights of {name} are missing (looked for {looked}).\n{remedy}")
    try:
        found = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: is not a readable safetensors file ({error}). Remove it.\n{remedy}") from None
    try:
        return select(found, schema)
    except ValueError as error:
        raise DataError(f"{path}: does not hold the weights of {name} ({error}). Remove it.\n{remedy}") from None


def select(found: State, schema: Schema) -> State:
    """The tensors a schema names; others, such as a layer the network has not, are left out."""
    state: State = {}
    for name, (shape, floating) in schema.items():
        if name not in found and name.endswith("num_batches_tracked"):
            state[name] = torch.zeros((), dtype=torch.int64)  # files of old have no counters
        elif name not in found:
            raise ValueError(f"there is no {name}")
        elif tuple(found[name].shape) != shape or found[name].is_floating_point() != floating:
            raise ValueError(f"{name} is {found[name].dtype} of shape {tuple(found[name].shape)}, not {shape}")
        else:
            state[name] = found[name]
    return state


def recipe(name: str, checkpoint: str) -> str:
    """Two lines that turn a torch checkpoint into the file `load` reads."""
    target = places(name)[-1]
    return (
        f"  mkdir -p {target.parent}\n"
        '  python -c "from torch import load; from safetensors.torch import save_file; '
        "save_file({k: v.contiguous().clone() for k, v in "
        f"load('{checkpoint}', weights_only=True).items()}}, '{target}')\""
    )
