"""Sites on Flower: its simulation runtime, a temporary federation on this machine, or one between real machines."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from galafed.engines.base import engines
from galafed.engines.remote import Remote
from galafed.errors import ConfigError

if TYPE_CHECKING:
    from galafed.engines.remote import Transport
    from galafed.sites.relay import Runtime

LOOPBACK = {"loopback": False, "supernodes": True}
"""In place of a federation's folder: a deployment on this machine, for as long as the run lasts, with our own nodes or
with Flower's SuperNodes."""

_inside: list[Transport] = []


@engines.register("flower")
class Flower(Remote):
    """Without a federation, Flower simulates the sites; the run stays in this process, and Flower passes bytes on."""

    name: ClassVar[str]
    summary: ClassVar[str] = "sites on Flower, simulated or real (--federation FOLDER, or loopback); galafed[flower]"
    probe_seconds: ClassVar[float] = 30.0

    def connect(self) -> Transport:
        """Flower is started or found when the first question is sent."""
        if _inside:
            return _inside[-1]
        if importlib.util.find_spec("flwr") is None:
            raise ConfigError("the engine 'flower' needs Flower: pip install 'galafed[flower]'")
        from galafed.sites.relay import Relay

        return Relay(self._runtime)

    def _runtime(self) -> Runtime:
        from galafed.flower.folder import read_folder
        from galafed.flower.runtimes import Existing, Loopback, Simulation

        config = self.config
        sites = dict.fromkeys(config.sources, "source") | {config.target: "target"}
        if not config.federation:
            if importlib.util.find_spec("ray") is None:
                raise ConfigError("Flower's simulation needs Ray: pip install 'galafed[flower]'")
            return Simulation(sites, threads=config.threads)
        if config.federation in LOOPBACK:
            return Loopback(sites, supernodes=LOOPBACK[config.federation])
        federation = read_folder(Path(config.federation))
        if strangers := sites.keys() - set(federation.sites):
            raise ConfigError(f"{config.federation} has no site called {min(strangers)!r}: it has {federation.sites}")
        return Existing(federation)


@contextmanager
def inside(transport: Transport) -> Iterator[None]:
    """Within a process that Flower started, questions go straight to Flower."""
    _inside.append(transport)
    try:
        yield
    finally:
        _inside.pop()
