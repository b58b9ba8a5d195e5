"""What an export format is: a file that another program can load, made from the classifier and checked against it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Protocol

from galafed.lazy import torch
from galafed.registry import Registry
from galafed.runs.seeding import generator
from galafed.trained.loading import Trained

TOLERANCE = 1e-4
"""An exported model may differ from the original by so much in any probability or distance."""


class Format(Protocol):
    """One format; `use` is a few lines of Python for the model card."""

    name: ClassVar[str]
    use: ClassVar[str]

    def write(self, trained: Trained, folder: Path) -> None:
        """Put the model's file into the folder, checked."""


formats: Registry[type[Format]] = Registry("format", "galafed.trained.formats")


def sample(trained: Trained, count: int) -> torch.Tensor:
    """Pictures of noise, uint8 [count, size, size, 3], to trace and to compare with."""
    shape = (count, trained.image_size, trained.image_size, 3)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator("export", count))
