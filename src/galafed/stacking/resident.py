"""All clients' images in one place on the device, so that a batch of many clients is one gathering by number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from galafed.loops import Bench, Images
from galafed.stacking import kernels
from galafed.work import Batch

NO_LABEL = -1


class Resident:
    """Images uint8 [total, h, w, 3] and labels [total] of all clients and their streams, one after the other."""

    def __init__(self, data: Mapping[str, Images], device: torch.device) -> None:
        kept = {(name, ""): images for name, images in data.items()}
        kept |= {(name, stream): domain for name, images in data.items() for stream, domain in images.streams.items()}
        self._images = torch.cat([images.images for images in kept.values()]).to(device)
        unlabelled = [
            torch.full((len(images),), NO_LABEL) if images.labels is None else images.labels for images in kept.values()
        ]
        self._labels = torch.cat(unlabelled).to(device)
        self._rows: dict[tuple[str, torch.dtype, torch.Size], Tensor] = {}
        self.first: dict[tuple[str, str], int] = {}
        """Where the images of a client's stream begin; "" stands for its own."""
        place = 0
        for key, images in kept.items():
            self.first[key] = place
            place += len(images)
        self.data = {
            name: replace(
                self._view(name, "", images),
                streams={stream: self._view(name, stream, domain) for stream, domain in images.streams.items()},
                exam=None if images.exam is None else images.exam.to(device),
            )
            for name, images in data.items()
        }

    def _view(self, name: str, stream: str, images: Images) -> Images:
        """The same images and labels where they lie among all."""
        own = slice(self.first[name, stream], self.first[name, stream] + len(images))
        return Images(self._images[own], None if images.labels is None else self._labels[own])

    def hold(self, client: str, stream: str, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Put what is known of single images of a client's stream in its place among all: [total, ...] by name."""
        held = {}
        for name, values in rows.items():
            kind = (name, values.dtype, values.shape[1:])
            if kind not in self._rows:  # stays where it is, for steps that were recorded read it there
                self._rows[kind] = values.new_zeros(len(self._images), *values.shape[1:])
            held[name] = self._rows[kind]
            first = self.first[client, stream]
            held[name][first : first + len(values)].copy_(values)
        return held

    def batch(
        self, bench: Bench, order: Tensor, cursor: Tensor, *, labelled: bool, rows: Mapping[str, Tensor]
    ) -> Batch:
        """The images with the numbers order[cursor] of [steps, n, B], normalised on the device: [n, B, 3, h, w].

        `rows` are those `hold` gave; each image's own comes with it.
        """
        batch = self._images_of(bench, order, cursor, labelled=labelled)
        if not rows:
            return batch
        index = order.index_select(0, cursor)[0]
        flat = index.flatten()
        found = {name: values.index_select(0, flat).unflatten(0, index.shape) for name, values in rows.items()}  # type: ignore[no-untyped-call]
        return Batch(batch.images, batch.labels, rows=found)

    def _images_of(self, bench: Bench, order: Tensor, cursor: Tensor, *, labelled: bool) -> Batch:
        if kernels.usable(bench):
            from galafed.stacking.kernels.gather import gather, gathers, scale_of  # needs triton

            if gathers(bench.network):
                scale = scale_of(bench.network, bench.device)
                known = self._labels if labelled else None
                return Batch(*gather(self._images, known, order, cursor, *scale, kernels.LOW))
        index = order.index_select(0, cursor)[0]
        flat = index.flatten()
        images = bench.network.prepare(self._images.index_select(0, flat), bench.dtype).unflatten(0, index.shape)  # type: ignore[no-untyped-call]
        return Batch(images, self._labels[flat].view(index.shape) if labelled else None)
