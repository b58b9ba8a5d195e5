"""Testing a model. The only place that holds the target's test labels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from galafed.loops import Bench, Images, sweep
from galafed.model import Model, State
from galafed.tasks import evaluate
from galafed.work import Readout


@dataclass(frozen=True)
class Evaluation:
    """Accuracy on the target's test images, and label-free criteria on its unlabelled training images."""

    accuracy: float
    entropy: float
    """Mean entropy of the predictions, in nats."""
    information: float
    """Entropy of the mean prediction minus the mean entropy: high when predictions are sure and varied."""


class Evaluator:
    """Tests models on the target's data; algorithms never see it."""

    def __init__(self, bench: Bench, *, test: Images, unlabelled: Images, readout: Readout) -> None:
        self._bench = bench
        self._test = test.to(bench.device)
        self._unlabelled = unlabelled.to(bench.device)
        self._readout = readout

    def __call__(self, model: Model) -> Evaluation:
        """Two passes: labels are used for the accuracy alone."""
        tested = self._sums(model, self._test, labelled=True)
        seen = self._sums(model, self._unlabelled, labelled=False)
        mean = seen["probability"] / seen["images"]
        entropy = float(seen["entropy"] / seen["images"])
        return Evaluation(
            accuracy=float(tested["correct"] / tested["images"]),
            entropy=entropy,
            information=float(torch.special.entr(mean).sum()) - entropy,
        )

    def _sums(self, model: Model, data: Images, *, labelled: bool) -> State:
        # Of a source that dropped out of the run there is no path to read.
        paths = tuple(path for path in self._readout.paths if set(path) <= model.parts.keys())
        work = evaluate(readout=replace(self._readout, paths=paths), labelled=labelled)
        return sweep(work, self._bench, data, {part: model.parts[part] for part in work.modules}).parts["sums"]
