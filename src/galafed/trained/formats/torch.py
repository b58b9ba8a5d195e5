"""torch.export: a program for PyTorch without any code of this package."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import ClassVar

import torch

from galafed.errors import GalafedError
from galafed.trained.formats.base import TOLERANCE, formats, sample
from galafed.trained.loading import Trained


@formats.register("torch")
class Torch:
    """One file; the number of images is free."""

    name: ClassVar[str]
    use: ClassVar[str] = """import torch

model = torch.export.load("THIS_FOLDER/model.pt2").module()
images = torch.zeros((1, SIZE, SIZE, 3), dtype=torch.uint8)  # RGB, 0 to 255
probabilities, *distance = model(images)"""

    def write(self, trained: Trained, folder: Path) -> None:
        path = folder / "model.pt2"
        with warnings.catch_warnings():  # of the exporter about its own future; nothing a user can do about them
            warnings.simplefilter("ignore")
            shapes = ({0: torch.export.Dim("images")},)
            program = torch.export.export(trained.classifier, (sample(trained, 2),), dynamic_shapes=shapes)
            torch.export.save(program, path)
            loaded = torch.export.load(path).module()
        for count in (1, 7):
            images = sample(trained, count)
            for mine, theirs in zip(trained.classifier(images), loaded(images), strict=True):
                worst = float((mine - theirs).abs().max())
                if not worst <= TOLERANCE:
                    raise GalafedError(
                        f"the exported program differs from the original by {worst:.2g}; it was not kept"
                    )
