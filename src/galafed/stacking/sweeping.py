"""`sweep` for many small clients with one model: the network passes over all their images at once.

In eval mode an image's outputs do not depend on its neighbours, so only the sums have to be taken client by client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from galafed.loops import Bench, Images, Swept, set_modes
from galafed.work import Batch, States, Sweep


def shares_passes(work: Sweep) -> bool:
    """Whether images of several clients may be in one pass."""
    return work.mode == "eval" and not (work.rows or work.sample or work.stream or work.exam)


def images_at_once(work: Sweep, bench: Bench) -> int:
    """Images of a pass."""
    return bench.sweep_batch or work.batch_size


def sweep_together(work: Sweep, bench: Bench, data: Sequence[Images], states: States) -> list[Swept]:
    """What `sweep` finds for each client, whose images together are not more than one pass takes."""
    modules = bench.modules(states)
    set_modes(modules, dict.fromkeys(modules, work.mode))
    every = Images(torch.cat([d.images for d in data]), _labels(data) if work.labelled else None)
    answers = []
    with torch.no_grad():
        batch = bench.batch(every, slice(None), labelled=work.labelled)
        for outputs, own in _apart(bench.forward(modules, work.outputs, batch), batch, [len(d) for d in data]):
            sums = {name: value.double() for name, value in work.measure(outputs, own).items()}
            parts = work.finish(sums, bench.dtype)
            answers.append(Swept({part: dict(state) for part, state in parts.items()}, {}))
    return answers


def _apart(
    outputs: dict[str, torch.Tensor], batch: Batch, sizes: Sequence[int]
) -> Iterator[tuple[dict[str, torch.Tensor], Batch]]:
    """Each client's outputs and images."""
    first = 0
    for size in sizes:
        own = slice(first, first + size)
        labels = None if batch.labels is None else batch.labels[own]
        yield {name: value[own] for name, value in outputs.items()}, Batch(batch.images[own], labels)
        first += size


def _labels(data: Sequence[Images]) -> torch.Tensor:
    return torch.cat([d.labels for d in data if d.labels is not None])
