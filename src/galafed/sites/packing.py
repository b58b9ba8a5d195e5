"""Tensors as the bytes of one safetensors file, a large one by way of a file: in memory it would be there twice."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save, save_file

LARGE = 2**22
"""Bytes from which on the way by a file is worth its time."""


def packed(tensors: dict[str, torch.Tensor], about: Mapping[str, str]) -> bytes:
    """What `safetensors.torch.save` makes of tensors, with no second copy on the way."""
    size = sum(value.numel() * value.element_size() for value in tensors.values())
    if size < LARGE:
        return save(tensors, dict(about))
    with tempfile.TemporaryDirectory(prefix="galafed-") as folder:
        path = Path(folder) / "message"
        save_file(tensors, path, dict(about))
        return path.read_bytes()
