"""Testing a model: a question to the target, which alone holds its images and its test labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from galafed.model import Model
from galafed.tasks import evaluate
from galafed.work import Readout

if TYPE_CHECKING:
    from galafed.federation import Federation


@dataclass(frozen=True)
class Evaluation:
    """Accuracy on the target's test images, and label-free criteria on its unlabelled training images."""

    accuracy: float | None
    """None where the target has no test labels."""
    entropy: float
    """Mean entropy of the predictions, in nats."""
    information: float
    """Entropy of the mean prediction minus the mean entropy: high when predictions are sure and varied."""
    mean_prediction: list[float]
    """The mean probability of each class [C]; a class that is taken for another is rare there."""


class Evaluator:
    """Tests models at the target; algorithms never see what comes of it."""

    def __init__(self, federation: Federation, readout: Readout) -> None:
        self._federation = federation
        self._readout = readout

    def __call__(self, model: Model) -> Evaluation:
        """One question, answered with sums: labels are used for the accuracy alone."""
        readout = self._readout.present(model.parts)
        task = evaluate(paths=[list(path) for path in readout.paths], rule=readout.rule)
        needed = Model({part: model.parts[part] for part in task.work.modules}, tag=model.tag)
        (reply,) = self._federation.ask(self._federation.target, task, needed, keep=False)
        seen, tested = reply.parts["seen"], reply.parts["tested"]
        mean = seen["probability"] / seen["images"]
        entropy = float(seen["entropy"] / seen["images"])
        return Evaluation(
            accuracy=float(tested["correct"] / tested["images"]) if tested["images"] else None,
            entropy=entropy,
            information=float(torch.special.entr(mean).sum()) - entropy,
            mean_prediction=mean.tolist(),
        )
