"""Work on an accelerator: whatever a task measures lies where its model's outputs do, or replies would mix devices."""

from __future__ import annotations

import pytest
import torch

from galafed.tasks import centroids, evaluate
from galafed.work import Batch, Sweep


@pytest.mark.parametrize(
    "work", [evaluate().work, evaluate().work.exam, centroids().work], ids=["seen", "exam", "soft"]
)
def test_what_a_sweep_measures_stays_on_the_device_of_its_outputs(work: Sweep) -> None:
    somewhere = torch.device("meta")  # any device that is not the processor will do
    labels = torch.zeros(4, dtype=torch.int64, device=somewhere) if work.labelled else None
    outputs = {name: torch.empty(4, 10, device=somewhere) for name in work.outputs}
    measured = work.measure(outputs, Batch(torch.empty(4, 3, 8, 8, device=somewhere), labels))
    assert {name: value.device for name, value in measured.items()} == dict.fromkeys(measured, somewhere)
