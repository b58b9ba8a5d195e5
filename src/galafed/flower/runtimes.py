"""Flower's runtimes as the engine uses them: a simulation, a federation on this machine, or one that is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import tomli_w

from galafed.errors import QuorumError
from galafed.flower import BUNDLE
from galafed.flower.environment import environment
from galafed.flower.folder import CONNECTION, FlowerFolder, make_folder
from galafed.flower.resident import socket_of
from galafed.sites.processes import BIN, Processes, answers, free_port

START = 60.0
"""Seconds a SuperLink has to come up."""


class Existing:
    """A SuperLink that runs already, with the nodes that are connected to it."""

    def __init__(self, folder: FlowerFolder, sites: Mapping[str, str]) -> None:
        if not answers(folder.host, folder.port):
            raise QuorumError(
                f"no SuperLink answers at {folder.address}: start it with 'gala federation start {folder.path}', then "
                "go on with 'gala resume'"
            )
        self._home = folder.home
        self._sites = sites

    def submit(self, relay: Path) -> None:
        """Have the SuperLink run the app."""
        submit(self._home, run_config(relay, self._sites))

    def trouble(self) -> str:
        """What runs elsewhere is not ours to see."""
        return ""

    def close(self) -> None:
        """Nothing was started."""


class Temporary:
    """Processes on this machine that live as long as the run."""

    def __init__(self, state: Path) -> None:
        self.state = state
        """Where sites keep what they must find again when the run is resumed."""
        self.folder = Path(tempfile.mkdtemp(prefix="galafed-flower-"))
        self.processes = Processes(self.folder / "logs")

    def trouble(self) -> str:
        """A process that has ended."""
        return self.processes.trouble()

    def close(self) -> None:
        """End the processes and remove their files."""
        self.processes.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait_for_link(self, host: str, port: int) -> None:
        deadline = time.monotonic() + START
        while not answers(host, port):
            if (trouble := self.trouble()) or time.monotonic() > deadline:
                self.close()
                raise QuorumError(f"Flower's SuperLink did not start. {trouble}")
            time.sleep(0.1)


class Loopback(Temporary):
    """A whole deployment on this machine: a SuperLink and a node for each site, TLS, registered keys."""

    def __init__(self, sites: Mapping[str, str], state: Path, *, supernodes: bool = False) -> None:
        from galafed.sites.policy import EVERYTHING

        super().__init__(state)
        federation = make_folder(self.folder / "federation", sites, port=free_port(), allow=EVERYTHING)
        self.federation = federation
        self._sites = sites
        self.processes.start("superlink", federation.link_command(), environment(federation.home))
        self._wait_for_link(federation.host, federation.port)
        register(federation)
        for name in federation.sites:
            command = federation.node_command(name, state / name)
            if supernodes:
                command = federation.supernode_command(name, state / name, free_port())
            self.processes.start(f"node-{name}", command, environment(federation.kit(name) / "home"))

    def submit(self, relay: Path) -> None:
        """Have the SuperLink run the app."""
        submit(self.federation.home, run_config(relay, self._sites))


class Simulation(Temporary):
    """Flower's simulation runtime: Ray works through simulated nodes."""

    def __init__(self, sites: Mapping[str, str], state: Path, *, threads: int) -> None:
        super().__init__(state)
        cores = len(os.sched_getaffinity(0))
        self._workers = max(1, cores // threads)
        self._cores = cores // self._workers
        self._sites = sites
        self._home = self.folder / "home"
        self._home.mkdir()
        port = free_port()
        connection = {"address": f"127.0.0.1:{port}", "insecure": True}
        flower = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
        (self._home / "config.toml").write_text(tomli_w.dumps(flower))
        command: list[str | int] = [
            "flower-superlink",
            "--insecure",
            "--simulation",
            "--host",
            "127.0.0.1",
            "--port",
            port,
        ]
        self.processes.start("superlink", command, environment(self._home))
        self._wait_for_link("127.0.0.1", port)

    def submit(self, relay: Path) -> None:
        """Have the simulation run the app with a node for each site."""
        settings = run_config(relay, self._sites) | {"workspace": str(self.state), "workers": self._workers}
        federation = f"num-supernodes={len(self._sites)} client-resources-num-cpus={self._cores}"
        submit(self._home, settings, "--federation-config", federation)

    def close(self) -> None:
        """Ray kills the workers, so that they cannot tidy up after themselves."""
        super().close()
        for number in range(self._workers):
            shutil.rmtree(socket_of(f"{self.state}/{number}").parent, ignore_errors=True)


def register(federation: FlowerFolder) -> None:
    """Tell the SuperLink the keys of its sites."""
    command = [sys.executable, "-m", "galafed.flower.register", str(federation.path)]
    done = subprocess.run(command, env=environment(federation.home), capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        raise QuorumError(f"the SuperLink did not take the keys of the sites: {_last_line(done)}")


def run_config(relay: Path, sites: Mapping[str, str]) -> dict[str, str | int]:
    """What the app is told: where the line is, and whom to wait for."""
    sources = ",".join(name for name, role in sites.items() if role == "source")
    target = next((name for name, role in sites.items() if role == "target"), "")
    return {"relay": str(relay), "sources": sources, "target": target}


def submit(home: Path, settings: Mapping[str, str | int], *more: str) -> None:
    """`flwr run` on our app."""
    values = " ".join(
        f'{key}="{value}"' if isinstance(value, str) else f"{key}={value}" for key, value in settings.items()
    )
    command = [str(BIN / "flwr"), "run", str(BUNDLE), CONNECTION, "--run-config", values, *more]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True)  # noqa: S603 - our own command
    if done.returncode:
        raise QuorumError(f"Flower did not take the run: {_last_line(done)}")


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return next(iter(reversed((done.stderr + done.stdout).strip().splitlines())), "it said nothing")
