"""The classifier of a run as one torch module: pictures in, probabilities out; what is predicted with and exported."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from galafed.familiarity import joined, unfamiliarity, usual
from galafed.loops import forward
from galafed.model import Model, State
from galafed.networks.base import Network
from galafed.networks.layers import materialised
from galafed.tasks import read
from galafed.work import Batch, Readout


class Classifier(nn.Module):
    """uint8 images [n, size, size, 3] -> class probabilities [n, C] and, with a profile, distances [n].

    The distance is that to the nearest class centroid of the target, in units of what is usual among its images:
    above 1 an image is unlike anything seen.
    """

    def __init__(self, network: Network, model: Model, readout: Readout, profile: State | None) -> None:
        super().__init__()
        self.network = network
        self.readout = readout.present(model.parts)
        self._names = self.readout.parts
        self.parts = nn.ModuleList(_filled(network, part, model.parts.get(part, {})) for part in self._names)
        self.dtype = next(self.parts.parameters()).dtype
        self.profile = profile
        self.knows_target = profile is not None
        if profile is not None:
            self._shape = (profile["means"], profile["spread"], usual(profile))
        self.eval()
        self.requires_grad_(False)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        modules = dict(zip(self._names, self.parts, strict=True))
        logits = {f"logits:{number}": path for number, path in enumerate(self.readout.paths)}
        features = {f"features:{number}": path for number, path in enumerate(self.readout.extracting)}
        found = forward(modules, logits | features, Batch(self.network.prepare(images, self.dtype)))
        probabilities = read(torch.stack([found[name].softmax(dim=-1) for name in logits]), self.readout)
        if not self.knows_target:
            return (probabilities,)
        return probabilities, unfamiliarity(joined([found[name] for name in features]), *self._shape)

    def states(self) -> dict[str, State]:
        """The state of every part that decides."""
        return {name: dict(part.state_dict()) for name, part in zip(self._names, self.parts, strict=True)}

    def features(self, images: Tensor) -> Tensor:
        """The features that decide, side by side: [n, d]."""
        modules = dict(zip(self._names, self.parts, strict=True))
        paths = {str(number): path for number, path in enumerate(self.readout.extracting)}
        return joined(list(forward(modules, paths, Batch(self.network.prepare(images, self.dtype))).values()))


def _filled(network: Network, part: str, state: State) -> nn.Module:
    with torch.device("meta"):
        module = network.make(part)
    dtype = next((value.dtype for value in state.values() if value.is_floating_point()), torch.float32)
    module = materialised(module, torch.device("cpu"), dtype)
    module.load_state_dict(state)
    return module
