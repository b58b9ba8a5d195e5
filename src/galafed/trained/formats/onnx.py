"""ONNX: for onnxruntime and every other program that reads it; compared with PyTorch before it is handed out."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import ClassVar

import torch

from galafed.errors import GalafedError
from galafed.extras import need
from galafed.trained.formats.base import TOLERANCE, formats, sample
from galafed.trained.loading import Trained


@formats.register("onnx")
class Onnx:
    """One file; the number of images is free."""

    name: ClassVar[str]
    use: ClassVar[str] = """import numpy, onnxruntime

session = onnxruntime.InferenceSession("THIS_FOLDER/model.onnx")
images = numpy.zeros((1, SIZE, SIZE, 3), numpy.uint8)  # RGB, 0 to 255
probabilities, *distance = session.run(None, {"images": images})"""

    def write(self, trained: Trained, folder: Path) -> None:
        runtime = need("onnxruntime", extra="onnx")
        need("onnxscript", extra="onnx")
        outputs = ["probabilities", "distance"][: 1 + trained.classifier.knows_target]
        path = folder / "model.onnx"
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it would tell that torchvision is not there
        with warnings.catch_warnings():  # of the exporter about its own future; nothing a user can do about them
            warnings.simplefilter("ignore")
            torch.onnx.export(
                trained.classifier,
                (sample(trained, 2),),
                str(path),
                input_names=["images"],
                output_names=outputs,
                dynamic_shapes=({0: torch.export.Dim("images")},),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        for count in (1, 7):
            images = sample(trained, count)
            for mine, theirs in zip(
                trained.classifier(images), session.run(None, {"images": images.numpy()}), strict=True
            ):
                worst = float((mine - torch.from_numpy(theirs)).abs().max())
                if not worst <= TOLERANCE:
                    raise GalafedError(f"the ONNX model differs from the original by {worst:.2g}, and was not kept")
