"""Sites on Flower: its simulation runtime, a temporary federation on this machine, or one between real machines."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar

from galafed.engines.base import engines
from galafed.engines.remote import Remote
from galafed.sites.extras import require

if TYPE_CHECKING:
    from galafed.engines.remote import Transport
    from galafed.messages import Failure, Job, Reply
    from galafed.sites.depot_relay import RuntimeWithDepot

LOOPBACK = {"loopback": False, "supernodes": True}
"""In place of a federation's folder: a deployment on this machine, for as long as the run lasts, with our own nodes or
with Flower's SuperNodes."""

_inside: list[Transport] = []


@engines.register("flower")
class Flower(Remote):
    """Without a federation, Flower simulates the sites; the run stays in this process, and Flower passes bytes on."""

    name: ClassVar[str]
    summary: ClassVar[str] = "sites on Flower, simulated or real (--federation FOLDER, or loopback); galafed[flower]"
    probe_seconds: ClassVar[float] = 10.0
    _asked_all = False
    _alone: IO[str] | None = None

    def connect(self) -> Transport:
        """Flower is started or found, and its nodes have a while to connect."""
        if _inside:
            return _inside[-1]
        require("flower")
        from galafed.sites.depot_relay import DepotRelay

        relay = DepotRelay(self._runtime, "Flower")
        relay.open()
        return relay

    def _runtime(self) -> RuntimeWithDepot:
        from galafed.flower.folder import FlowerFolder
        from galafed.flower.runtimes import Federated, Loopback, Simulation

        config = self.config
        if not config.federation:
            return Simulation(config.sources, config.target, self._state(), threads=config.threads)
        if config.federation in LOOPBACK:
            return Loopback(config.sources, config.target, self._state(), supernodes=LOOPBACK[config.federation])
        federation = FlowerFolder.read(Path(config.federation))
        federation.require((*config.sources, config.target))
        return Federated(federation, config.sources, config.target)

    def _state(self) -> Path:
        """Where the sites of a temporary federation keep what a resumed run needs; one run at a time has it."""
        from galafed.benchmarks.store import cache_folder
        from galafed.sites.temporary import hold

        folder = cache_folder() / "sites" / self.config.hash()[:16]
        self._alone = self._alone or hold(folder)
        return folder

    def dispatch(
        self, jobs: Sequence[Job], timeout: float | None, progress: Callable[[int], None]
    ) -> list[Reply | Failure]:
        answers = super().dispatch(jobs, timeout, progress)
        # After the test of the last round no question needs what sites kept.
        self._asked_all |= jobs[0].round + 1 == self.config.rounds and jobs[0].task.name == "evaluate"
        return answers

    def close(self) -> None:
        super().close()
        if self._asked_all and self.config.federation in ("", *LOOPBACK):
            shutil.rmtree(self._state(), ignore_errors=True)
        if self._alone is not None:
            self._alone.close()
            self._alone = None


@contextmanager
def inside(transport: Transport) -> Iterator[None]:
    """Within a process that Flower started, questions go straight to Flower."""
    _inside.append(transport)
    try:
        yield
    finally:
        _inside.pop()
