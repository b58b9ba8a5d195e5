"""Flower's runtimes as the engine uses them: a federation, one that only lives as long as a run, or a simulation."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import tomli_w

from galafed.errors import QuorumError
from galafed.flower import BUNDLE
from galafed.flower.environment import environment
from galafed.flower.folder import (
    CONNECTION,
    Command,
    FlowerFolder,
    identity_in,
    make_federation,
    node_command,
    supernode_command,
    write_connection,
)
from galafed.flower.resident import socket_of
from galafed.sites.depot import Depot
from galafed.sites.identity import Identity
from galafed.sites.processes import BIN, Processes, answers, free_port
from galafed.sites.temporary import TemporaryFolder

LINK = "superlink"
PREFIX = "galafed-flower-"
HERE = "127.0.0.1"
START = 60.0
"""Seconds a SuperLink has to come up."""


class Link:
    """A SuperLink as a child of this process, or one that answers already; our app is run through it.

    The depot for large payloads is beside it, at the next port, and in this process.
    """

    def __init__(self, logs: Path, home: Path, host: str, port: int, command: Command, server: Identity) -> None:
        self._spool = TemporaryFolder(PREFIX)
        self.depot = Depot(server, host, port + 1, self._spool.path)
        self.processes = Processes(logs)
        self._home, self._host, self._port, self._command = home, host, port, command
        self._known = False
        self._start()

    def _start(self) -> None:
        """Have a SuperLink that answers and knows what it must; one that has ended is started again."""
        if not answers(self._host, self._port):
            self._known = False
            self.processes.start(LINK, self._command, environment(self._home))
            deadline = time.monotonic() + START
            while not answers(self._host, self._port):
                if (trouble := self.trouble()) or time.monotonic() > deadline:
                    self.close()
                    raise QuorumError(f"Flower's SuperLink did not start. {trouble}")
                time.sleep(0.1)
        if not self._known:
            self._introduce()
            self._known = True

    def _introduce(self) -> None:
        """Tell a new SuperLink what it must know."""

    def _submit(self, settings: Mapping[str, str | int], *more: str) -> None:
        """`flwr run` on our app."""
        self._start()
        values = " ".join(f"{key}={json.dumps(value)}" for key, value in settings.items())
        run: Command = [BIN / "flwr", "run", BUNDLE, CONNECTION, "--run-config", values, *more]
        _done(run, self._home, "Flower did not take the run")

    def ended(self) -> bool:
        """Not known: a server app of Flower's starts whoever is there."""
        return False

    def trouble(self) -> str:
        """How the SuperLink ended, where it did; that a node has ended is no trouble to the others."""
        return self.processes.trouble(LINK)

    def close(self) -> None:
        """End what was started."""
        self.depot.close()
        self.processes.close()
        self._spool.close()


class Federated(Link):
    """The sites of a federation's folder; those who are there when a question is put take part."""

    def __init__(self, federation: FlowerFolder, sources: Sequence[str], target: str, *, database: bool = True) -> None:
        """With a database a SuperLink that is started again knows its nodes; without one it works half as much."""
        self.federation = federation
        self._sites = {"sources": ",".join(sources), "target": target}
        logs, command = federation.server / "logs", federation.link_command()
        command += ["--database", federation.server / "link.db"] if database else []
        server = identity_in(federation.server, "server")
        super().__init__(logs, federation.home, federation.host, federation.port, command, server)

    def _introduce(self) -> None:
        register: Command = [sys.executable, "-m", "galafed.flower.register", self.federation.path]
        _done(register, self._home, "the SuperLink did not take the keys of the sites")

    def submit(self, relay: Path) -> None:
        """Have the SuperLink run the app."""
        self._submit({"relay": str(relay), **self._sites})


class Loopback(Federated):
    """A whole deployment on this machine for one run: a SuperLink and a node for each site, TLS, registered keys."""

    def __init__(self, sources: Sequence[str], target: str, state: Path, *, supernodes: bool = False) -> None:
        from galafed.sites.policy import EVERYTHING

        self._own = TemporaryFolder(PREFIX)
        self.folder = self._own.path
        federation = make_federation(self.folder / "federation", sources, target, port=free_port())
        super().__init__(federation, sources, target, database=False)
        state.mkdir(parents=True, exist_ok=True)
        for name in federation.sites:
            kit, site = federation.kit(name), state / f"{name}.toml"
            values = {"name": name, "role": "target" if name == target else "source", "kit": str(kit)}
            site.write_text(tomli_w.dumps(values | {"allow": asdict(EVERYTHING)}))
            command = node_command(site)
            if supernodes:
                command = supernode_command(site, kit, federation.address, free_port())
            self.processes.start(f"node-{name}", command, environment(kit / "home"))

    def close(self) -> None:
        """End the processes and remove their files."""
        super().close()
        self._own.close()


class Simulation(Link):
    """Flower's simulation runtime: Ray works through simulated nodes, as many at a time as there are cores for."""

    def __init__(self, sources: Sequence[str], target: str, state: Path, *, threads: int) -> None:
        cores = len(os.sched_getaffinity(0))
        self._workers = max(1, cores // threads)
        self._options = f"num-supernodes={len(sources) + 1} client-resources-num-cpus={cores // self._workers}"
        sites: dict[str, str | int] = {"sources": ",".join(sources), "target": target}
        self._own = TemporaryFolder(PREFIX)
        self.folder = self._own.path
        home, port = self.folder / "home", free_port()
        # Flower's own messages stay in this machine, in the clear; large payloads go past it, as in a deployment.
        made = make_federation(self.folder / "federation", sources, target, host=HERE, port=port)
        kits = str(made.path / "sites")
        self._settings = sites | {"workspace": str(state), "workers": self._workers, "kits": kits}
        home.mkdir()
        write_connection(home, {"address": f"{HERE}:{port}", "insecure": True})
        command: Command = ["flower-superlink", "--insecure", "--simulation", "--host", HERE, "--port", port]
        super().__init__(self.folder / "logs", home, HERE, port, command, identity_in(made.server, "server"))

    def submit(self, relay: Path) -> None:
        """Have the simulation run the app with a node for each site."""
        self._submit({"relay": str(relay), **self._settings}, "--federation-config", self._options)

    def close(self) -> None:
        """End the processes and remove their files; Ray kills the workers, which therefore leave theirs behind."""
        super().close()
        self._own.close()
        for number in range(self._workers):
            shutil.rmtree(socket_of(f"{self._settings['workspace']}/{number}").parent, ignore_errors=True)


def _done(command: Command, home: Path, otherwise: str) -> None:
    """Carry out a command of Flower's, or tell what it said."""
    done = subprocess.run(  # noqa: S603 - our own command
        list(map(str, command)), env=environment(home), capture_output=True, text=True, cwd="/"
    )
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split()[-60:])
        raise QuorumError(f"{otherwise}: {said or 'it said nothing'}; go on with 'gala resume'")
