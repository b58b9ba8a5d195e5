"""FLARE for one run: its server started or found, the sites gathered, the job handed over, and again if it is lost."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from galafed.errors import QuorumError
from galafed.flare.kits import ADMIN, FlareFolder, identity_in, make_federation
from galafed.flare.parties import HEARTBEAT, environment, server_command, site_command
from galafed.sites.depot import Depot
from galafed.sites.processes import Processes, answers, free_port
from galafed.sites.temporary import TemporaryFolder

PREFIX = "galafed-flare-"
START = 60.0
"""Seconds the server has to come up."""
GATHER = 45.0
"""Seconds that sites have to connect before the run goes on without them."""
GATHER_OWN = 240.0
"""The same for sites that were started for the run."""
ALIVE = 3 * HEARTBEAT
"""Seconds since its last sign of life after which a site is taken for gone."""
POLL = 0.25
LOOK = 5.0
"""Seconds between two looks at a job that has not come on the line yet."""
LOGINS = 3
"""How often the server is asked to let us in."""


class Coordinator:
    """The server of a federation, as a child of this process, and the jobs it is given."""

    patience = GATHER

    def __init__(self, federation: FlareFolder, needed: Sequence[str], notice: Callable[[str], None]) -> None:
        self.federation = federation
        self._own = TemporaryFolder(PREFIX)
        self.folder = self._own.path
        self.processes = Processes(federation.server / "logs")
        self._needed = tuple(needed)
        self._notice = notice
        self._jobs = 0
        self._job = ""
        self._looked = 0.0
        spool = self.folder / "spool"
        spool.mkdir(mode=0o700)
        self.depot = Depot(identity_in(federation.server, "server"), federation.host, federation.port + 1, spool)
        self._start_server()

    def submit(self, relay: Path) -> None:
        """Gather the sites and have the server run our job with those that are there."""
        if self.processes.trouble():
            self._start_server()
        with self._session() as session:
            if self._job:  # one that hangs, for a site died while it started, must not come on the line later
                with contextlib.suppress(Exception):
                    session.abort_job(self._job)
            there = self._gather(session)
            self._jobs += 1
            from galafed.flare.job import write_job

            self._job = session.submit_job(str(write_job(self.folder / f"job-{self._jobs}", there, relay)))
            self._looked = time.monotonic()

    def ended(self) -> bool:
        """Whether the job has come to its end, as one does whose sites are killed while it starts; looked up rarely."""
        if time.monotonic() < self._looked + LOOK:
            return False
        self._looked = time.monotonic()
        with contextlib.suppress(Exception), self._session() as session:  # whoever cannot be asked has told nothing
            return str(session.get_job_meta(self._job)["status"]).startswith("FINISHED")
        return False

    def connected(self, names: frozenset[str]) -> frozenset[str]:
        """Which of these sites are connected to the server, whatever the running job knows of them."""
        with contextlib.suppress(QuorumError), self._session() as session:
            return names & self._alive(session).keys()
        return frozenset()

    def _gather(self, session: Any) -> list[str]:
        """The sites that are there: all of them, or those that came in time."""
        deadline = time.monotonic() + self.patience
        while True:
            there = self._alive(session)
            missing = [name for name in self._needed if name not in there]
            if not missing:
                break
            if time.monotonic() > deadline:
                if not there:
                    raise QuorumError(
                        f"no site has connected to {self.federation.address}: start them with 'gala site start', and "
                        "go on with 'gala resume'"
                    )
                self._notice(f"going on without {', '.join(missing)}: not connected")
                break
            time.sleep(POLL)
        return [name for name in self._needed if name in there]

    def _alive(self, session: Any) -> dict[str, float]:
        """The sites that gave a sign of life a moment ago, with its time."""
        try:
            info = session.get_system_info().client_info
        except Exception as error:
            raise QuorumError(f"the server of FLARE does not answer: {error}") from None
        now = time.time()
        return {c.name: c.last_connect_time for c in info if now - float(c.last_connect_time or 0) < ALIVE}

    @contextlib.contextmanager
    def _session(self) -> Iterator[Any]:
        """A session with the server as the one who starts runs."""
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        for left in reversed(range(LOGINS)):
            try:
                with contextlib.redirect_stdout(io.StringIO()):  # it greets on the console
                    session = new_secure_session(ADMIN, str(self.federation.admin), timeout=START)
                break
            except Exception as error:  # a busy server may be too slow for its own patience
                if not left or self.trouble():
                    where = f"the server of FLARE at {self.federation.address}"
                    raise QuorumError(f"{where} does not let us in: {error}. {self.trouble()}") from None
        try:
            yield session
        finally:
            session.close()

    def _start_server(self) -> None:
        federation = self.federation
        if "server" not in self.processes.running and answers(federation.host, federation.port):
            raise QuorumError(
                f"somebody listens at {federation.address} already: another run of this federation? Wait for it to end"
            )
        self.processes.start("server", server_command(federation), environment())
        deadline = time.monotonic() + START
        while not answers(federation.host, federation.port):
            if (trouble := self.trouble()) or time.monotonic() > deadline:
                raise QuorumError(f"the server of FLARE did not start. {trouble}")
            time.sleep(0.1)

    def trouble(self) -> str:
        """A process of ours that has ended."""
        return self.processes.trouble()

    def close(self) -> None:
        """End the server, and with it the job; the sites wait for the next one."""
        self.depot.close()
        self.processes.close()
        self._own.close()


class Temporary(Coordinator):
    """A federation that only lives as long as the run: keys, server and sites on this machine."""

    patience = GATHER_OWN

    def __init__(self, sources: Sequence[str], target: str, notice: Callable[[str], None]) -> None:
        self._whole = TemporaryFolder(PREFIX)
        whole = self._whole.path
        federation = make_federation(whole / "federation", sources, target, port=free_port())
        super().__init__(federation, federation.sites, notice)
        for name in federation.sites:
            file = whole / name / "site.toml"
            file.parent.mkdir()
            write_trusting(file, name, "target" if name == target else "source", federation.kit(name))
            self.processes.start(name, site_command(federation.kit(name), name), environment(GALAFED_SITE=str(file)))

    def close(self) -> None:
        super().close()
        self._whole.close()


def write_trusting(path: Path, name: str, role: str, kit: Path) -> None:
    """The file of a site on the user's own machine, which allows whatever the run asks."""
    import tomli_w

    from galafed.sites.policy import EVERYTHING

    allow = {"tasks": list(EVERYTHING.tasks), "parts": list(EVERYTHING.parts)}
    path.write_text(tomli_w.dumps({"name": name, "role": role, "kit": str(kit), "allow": allow}))
