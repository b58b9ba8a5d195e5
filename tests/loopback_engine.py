"""An engine for tests: sites in this process, each message really encoded, with a hook for what a network may do."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from galafed.engines.base import engines
from galafed.engines.remote import Arrived, Remote
from galafed.messages import Failure
from galafed.sites.loopback import Loopback
from galafed.sites.policy import EVERYTHING, Policy
from galafed.sites.settings import SiteSettings
from galafed.sites.site import Site

Meddle = Callable[[str, bytes, Site], "bytes | Failure | list[bytes] | None"]


def sites_of(
    config: Any, folder: Path, policies: Mapping[str, Policy] | None = None, data: Mapping[str, str] | None = None
) -> dict[str, Site]:
    """A site for each domain of a run."""
    names = (*config.sources, config.target)
    made = {}
    for name in names:
        settings = SiteSettings(
            name=name,
            role="target" if name == config.target else "source",
            allow=(policies or {}).get(name, EVERYTHING),
            data=(data or {}).get(name, ""),
        )
        made[name] = Site(settings, folder / name)
    return made


class Wire(Loopback):
    """Keeps every byte that crossed; `meddle` stands for the network and for sites that are not honest."""

    def __init__(self, sites: Mapping[str, Site], meddle: Meddle | None = None) -> None:
        super().__init__(sites)
        self.meddle = meddle
        self.requests: list[tuple[str, bytes]] = []
        self.answers: list[tuple[str, bytes]] = []

    def send(self, requests: Mapping[str, bytes], timeout: float | None, arrived: Arrived, largest: int) -> None:
        for name, request in sorted(requests.items()):
            self.requests.append((name, request))
            site = self.sites[name]
            answer = self.meddle(name, request, site) if self.meddle else site.handle(request)
            for each in answer if isinstance(answer, list) else [answer]:
                if isinstance(each, bytes):
                    self.answers.append((name, each))
                if each is not None:
                    arrived(name, each)


@engines.register("loopback")
class LoopbackEngine(Remote):
    """Sites in this process."""

    name: ClassVar[str]
    summary: ClassVar[str] = "sites in this process, for tests"
    folder: ClassVar[Path | None] = None
    meddle: ClassVar[Meddle | None] = None
    policies: ClassVar[Mapping[str, Policy]] = {}
    data: ClassVar[Mapping[str, str]] = {}
    wire: ClassVar[Wire | None] = None

    def connect(self) -> Wire:
        folder = self.folder or Path(tempfile.mkdtemp())
        made = Wire(sites_of(self.config, folder, self.policies, self.data), type(self).meddle)
        type(self).wire = made
        return made
