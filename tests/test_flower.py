"""Flower with real processes: a SuperLink with TLS, nodes with registered keys, Ray. Each run equals `serial`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="pip install 'galafed[flower]'")

import galafed
from galafed.errors import ConfigError
from galafed.flower import BUNDLE
from galafed.flower.environment import environment
from galafed.flower.folder import FlowerFolder, make_federation, node_command
from galafed.flower.keys import make_certificates, make_node_key
from galafed.flower.register import connected, register
from galafed.flower.runtimes import Federated, Loopback, Simulation
from galafed.messages import Failure
from galafed.sites import wire
from galafed.sites.depot_relay import DepotRelay
from galafed.sites.processes import Processes, answers, free_port
from galafed.sites.site_file import write_site_file

SITES = ("hand", "type", "hand-small")
RUN: dict[str, Any] = {"target": "hand-small", "sources": ["hand", "type"], "rounds": 1, "device": "cpu", "threads": 1}
ECHO = """
import sys
from pathlib import Path
from galafed.flower.node import serve
from galafed.flower.place import carried
address, kit, authority = sys.argv[1:]

def make():
    return carried(lambda request: request, kit, "echo")

serve(address, Path(authority), Path(kit) / "node.key", make, Path(kit) / "note")
"""


class Running:
    """A federation whose processes a test can end and start."""

    def __init__(self, folder: FlowerFolder, logs: Path) -> None:
        self.folder = folder
        self.processes = Processes(logs)

    def link(self) -> None:
        command = [*self.folder.link_command(), "--database", self.folder.server / "link.db"]
        self.processes.start("link", command, environment(self.folder.home))
        deadline = time.monotonic() + 60
        while not answers(self.folder.host, self.folder.port):
            assert time.monotonic() < deadline, self.processes.trouble()
            time.sleep(0.1)

    def node(self, name: str) -> None:
        site = self.folder.path / f"{name}.toml"
        if not site.exists():
            role = "target" if name == self.folder.target else "source"
            write_site_file(site, name=name, role=role, kit=self.folder.kit(name), data="")
        self.processes.start(name, node_command(site), environment(self.folder.kit(name) / "home"))

    def echo(self) -> None:
        kit = self.folder.kit("echo")
        command = ["python", "-c", ECHO, self.folder.address, kit, kit / "ca.crt"]
        self.processes.start("echo", command, environment(self.folder.home))

    def kill(self, name: str) -> None:
        process = self.processes.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def log(self, name: str) -> str:
        return (self.processes.logs / f"{name}.log").read_text()


def own_address() -> str:
    """This machine's address on its network, as sites elsewhere would have it; on a machine without one, loopback's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # nothing is sent
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("flower")
    where = {"host": own_address(), "port": free_port()}
    folder = make_federation(path / "federation", ["hand", "type", "echo"], "hand-small", **where)
    made = Running(folder, path / "logs")
    try:
        made.link()
        register(folder)
        for name in SITES:
            made.node(name)
        made.echo()
        deadline = time.monotonic() + 60
        while connected(folder) < {*SITES, "echo"}:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield made
    finally:
        made.processes.close()


def serial(tmp_path: Path, **settings: Any) -> str:
    return str(galafed.run("mini", out=tmp_path / "serial", **RUN | settings).summary["digest"])


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("algorithm", ["gala", "kd3a"])
def test_a_deployment_ends_with_the_same_bits(running: Running, tmp_path: Path, algorithm: str) -> None:
    settings = {"algorithm": algorithm, "engine": "flower", "federation": str(running.folder.path)}
    result = galafed.run("mini", out=tmp_path / "flower", **RUN | settings)
    assert lines(tmp_path / "flower")[0]["failures"] == []
    assert result.summary["digest"] == serial(tmp_path, algorithm=algorithm)


def test_a_large_message_goes_there_and_back_whole(running: Running) -> None:
    relay = DepotRelay(lambda: Federated(running.folder, ["echo"], ""))
    big, heard = os.urandom(103_000_000), list[bytes | Path | Failure]()
    try:
        relay.send({"echo": big}, 120, lambda name, answer: heard.append(answer), len(big))
        (answer,) = heard
        assert isinstance(answer, Path)
        assert answer.read_bytes() == big
    finally:
        relay.close()


@pytest.mark.slow
def test_a_killed_node_is_named_and_a_new_one_takes_part_again(running: Running, tmp_path: Path) -> None:
    settings = {"engine": "flower", "federation": str(running.folder.path), "timeout": 15.0, "seed": 1}
    running.kill("type")
    galafed.run("mini", out=tmp_path / "without", **RUN | settings)
    (failure,) = lines(tmp_path / "without")[0]["failures"]
    assert failure["client"] == "type"
    assert failure["kind"] in ("late", "lost"), failure

    running.node("type")
    again = galafed.run("mini", out=tmp_path / "again", **RUN | settings | {"timeout": 200.0})
    assert lines(tmp_path / "again")[0]["failures"] == []
    assert again.summary["digest"] == serial(tmp_path, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_superlink_is_started_again_and_without_the_target_the_run_can_be_resumed(
    running: Running, tmp_path: Path
) -> None:
    out, rounds = tmp_path / "run", 3
    flags = ["--target", "hand-small", "--engine", "flower", "--rounds", str(rounds), "--device", "cpu", "--seed", "2"]
    flags += ["--federation", str(running.folder.path), "--out", str(out), "--set", "threads=1", "--set", "timeout=60"]
    command = [sys.executable, "-m", "galafed", "run", "mini", *flags, "--set", 'sources=["hand","type"]']
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        assert run.stdout is not None
        said = ""
        for line in run.stdout:
            said += line
            if "round   1/" in line:
                running.kill("link")
            if "round   2/" in line:
                running.kill("hand-small")
    assert run.returncode == 5, said
    assert "the round was undone" in said
    assert len(lines(out)) == 2
    running.link()
    running.node("hand-small")
    resumed = subprocess.run([sys.executable, "-m", "galafed", "resume", str(out)], capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    digest = json.loads((out / "summary.json").read_text())["digest"]
    assert digest == serial(tmp_path, rounds=rounds, seed=2)


def test_strangers_are_refused(running: Running, tmp_path: Path) -> None:
    folder = running.folder

    def join(kit: Path, authority: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", ECHO, folder.address, str(kit), str(authority)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment(tmp_path))

    make_node_key(tmp_path)
    unknown = join(tmp_path, folder.server / "ca.crt")
    assert unknown.returncode != 0
    assert "Failed to initialize the connection" in unknown.stdout + unknown.stderr
    twice = join(folder.kit("hand"), folder.server / "ca.crt")
    assert twice.returncode != 0, "the key of a node that is connected"
    (tmp_path / "other").mkdir()
    make_certificates(tmp_path / "other", folder.host)
    other = join(folder.kit("hand"), tmp_path / "other" / "ca.crt")
    assert other.returncode != 0
    assert "certificate" in (other.stdout + other.stderr).lower()
    with socket.create_connection((folder.host, folder.port)) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nHost: link\r\n\r\n")
        plain.settimeout(10)
        assert not plain.recv(100).startswith(b"HTTP/")


def test_a_simulation_ends_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path / "cache"))
    result = galafed.run("mini", out=tmp_path / "flower", engine="flower", **RUN | {"seed": 3})
    assert result.summary["digest"] == serial(tmp_path, seed=3)
    assert not list((tmp_path / "cache" / "sites").iterdir()), "what simulated sites kept goes with the run"


@pytest.mark.slow
def test_flwr_run_alone_does_the_whole_run(tmp_path: Path) -> None:
    runtime = Simulation(["hand", "type"], "hand-small", tmp_path / "state", threads=1)
    app = ["--run-config", f'rounds=1 seed=4 device="cpu" target="hand-small" sources="hand,type" out="{tmp_path}/run"']
    command = ["flwr", "run", str(BUNDLE), *app, "--run-config", 'set="threads=1"']
    try:
        env = environment(runtime.folder / "home")
        done = subprocess.run(
            [*command, "--federation-config", "num-supernodes=3"], env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        deadline = time.monotonic() + 200
        while not (tmp_path / "run" / "done").exists():
            assert time.monotonic() < deadline, (runtime.folder / "logs" / "superlink.log").read_text()
            time.sleep(0.5)
    finally:
        runtime.close()
    assert (tmp_path / "run" / "done").read_text().strip() == serial(tmp_path, seed=4)


def workers_below(folder: Path) -> list[int]:
    """Workers of nodes whose files are in a folder; others on the machine are other tests'."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            told = [(process / name).read_bytes() for name in ("cmdline", "environ")]
            if b"galafed.flower.worker" in told[0] and str(folder).encode() in told[1]:
                found.append(int(process.name))
    return sorted(found)


def test_supernodes_of_flower_keep_a_worker_warm(tmp_path: Path) -> None:
    made = Loopback([], "hand", tmp_path / "state", supernodes=True)
    relay = DepotRelay(lambda: made)
    seen: list[Any] = []
    try:
        for sequence in (1, 2):
            ping = wire.encode(wire.Request("run", "attempt", sequence, wire.Ping()))
            relay.send({"hand": ping}, 90, lambda name, answer: seen.append(answer), 2**20)
            seen.append(workers_below(made.folder))
    finally:
        relay.close()
    assert wire.decode_answer(seen[0], None).site == "hand"
    assert seen[1] == seen[3] != []


def test_a_folder_of_something_else_is_refused(tmp_path: Path, running: Running) -> None:
    with pytest.raises(ConfigError, match=r"federation\.toml"):
        FlowerFolder.read(tmp_path)
    with pytest.raises(ConfigError, match="exists already"):
        make_federation(tmp_path, ["hand"], "type")
    for private in ("server/server.key", "sites/hand/node.key"):
        assert (running.folder.path / private).stat().st_mode & 0o777 == 0o600
    settings = RUN | {"sources": ["hand", "type-small"], "engine": "flower", "federation": str(running.folder.path)}
    with pytest.raises(ConfigError, match="no site called 'type-small'"):
        galafed.run("mini", out=tmp_path / "run", **settings)
