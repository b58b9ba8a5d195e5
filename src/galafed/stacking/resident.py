"""All clients' images in one place on the device, so that a batch of many clients is one gathering by number."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from galafed.loops import Bench, Images
from galafed.stacking import kernels
from galafed.work import Batch

NO_LABEL = -1


class Resident:
    """Images uint8 [total, h, w, 3] and labels [total] of all clients, one after the other."""

    def __init__(self, data: Mapping[str, Images], device: torch.device) -> None:
        self._images = torch.cat([images.images for images in data.values()]).to(device)
        unlabelled = [
            torch.full((len(images),), NO_LABEL) if images.labels is None else images.labels for images in data.values()
        ]
        self._labels = torch.cat(unlabelled).to(device)
        self.first: dict[str, int] = {}
        self.data: dict[str, Images] = {}
        place = 0
        for name, images in data.items():
            self.first[name] = place
            own = slice(place, place + len(images))
            streams = {stream: domain.to(device) for stream, domain in images.streams.items()}
            labels = None if images.labels is None else self._labels[own]
            self.data[name] = Images(self._images[own], labels, streams)
            place += len(images)

    def batch(self, bench: Bench, order: Tensor, cursor: Tensor, *, labelled: bool) -> Batch:
        """The images with the numbers order[cursor] of [steps, n, B], normalised on the device: [n, B, 3, h, w]."""
        if kernels.usable(bench):
            from galafed.stacking.kernels.gather import gather, gathers, scale_of  # needs triton

            if gathers(bench.network):
                scale = scale_of(bench.network, bench.device)
                known = self._labels if labelled else None
                return Batch(*gather(self._images, known, order, cursor, *scale, kernels.LOW))
        index = order.index_select(0, cursor)[0]
        flat = index.flatten()
        images = bench.network.prepare(self._images[flat], bench.dtype).unflatten(0, index.shape)  # type: ignore[no-untyped-call]
        return Batch(images, self._labels[flat].view(index.shape) if labelled else None)
