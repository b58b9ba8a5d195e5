"""safetensors: the model's tensors as they are, for `galafed.load` and for programs of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from galafed.runs.files import write_durably
from galafed.trained.formats.base import formats
from galafed.trained.loading import Trained
from galafed.trained.package import TENSORS, packed


@formats.register("safetensors")
class Safetensors:
    """Tensors named PART|TENSOR; `model.json` says how the parts are put together."""

    name: ClassVar[str]
    use: ClassVar[str] = """import galafed

model = galafed.load("THIS_FOLDER")
for prediction in model.predict(["picture.png"]):
    print(prediction.label, prediction.confidence, prediction.unlike)"""

    def write(self, trained: Trained, folder: Path) -> None:
        write_durably(folder / TENSORS, packed(trained.classifier))
