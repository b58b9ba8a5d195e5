"""The engine `nvflare` with real processes and certificates: same bits, kills, rogues, and who is let in."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flare_harness import GALA, Deployment, rogue
from galafed.config import resolve
from galafed.flare.connection import try_connection
from galafed.flare.kits import make_federation
from galafed.runs.runner import start
from galafed.sites.processes import answers
from giveaways import seen
from packets import captured_on_loopback
from stripes import write_stripes

SOURCES = ("bright", "dark", "faint")
TARGET = "noisy"
SETTINGS = {
    "sources": '["bright","dark","faint"]',
    "training.epochs": "4",
    "training.persistent_momentum": "true",
    "threads": "1",
    "timeout": "60",
    "rounds": "2",
}


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    made = Deployment(tmp_path, SOURCES, TARGET)
    made.start()
    yield made
    made.close()


def alone(tmp_path: Path, **values: str) -> str:
    """The digest of one process."""
    settings = [f"--set={key}={value}" for key, value in (SETTINGS | values).items()]
    out = tmp_path / "alone"
    command = [GALA, "run", "toy", "--device", "cpu", "--out", str(out), *settings]
    assert subprocess.run(command, capture_output=True, timeout=120).returncode == 0
    return (out / "done").read_text().strip()


def test_a_killed_worker_costs_time_and_nothing_else_and_strangers_are_not_let_in(
    deployment: Deployment, tmp_path: Path
) -> None:
    deployment.run("toy", settings=SETTINGS)
    address = (deployment.federation.host, deployment.federation.port)
    _wait_until(lambda: answers(*address))
    _plain_text(address)
    _no_certificate(address, deployment)
    _certificate_of_another_authority(address, tmp_path)
    assert not [text for text, problem in try_connection(deployment.federation.kit("dark"), "dark") if problem]
    with captured_on_loopback(address[1], address[1] + 1) as capture:
        deployment.wait_for("dark", "train", 2)
        deployment.kill_worker("dark")
        assert deployment.ends() == 0, deployment.said()
    assert deployment.digest() == alone(tmp_path)
    assert [line["failures"] for line in deployment.metrics()] == [[], []]
    if capture is not None:  # only where one may look; what passes by a tap is searched everywhere
        assert len(capture.content) > 200_000, "a round's models, at least"
        assert not seen(capture.content)


def _wait_until(true: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _plain_text(address: tuple[str, int]) -> None:
    with socket.create_connection(address, 5) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 10)
        line.settimeout(1)
        try:
            answer = line.recv(1000)
        except OSError:
            answer = b""
        assert b"HTTP" not in answer  # at most a TLS alert


def _refused(context: ssl.SSLContext, address: tuple[str, int]) -> bool:
    """Whether the server ends a TLS connection by itself."""
    try:
        with socket.create_connection(address, 5) as line, context.wrap_socket(line) as secure:
            secure.settimeout(1)
            return not secure.recv(1)
    except TimeoutError:
        return False
    except (ssl.SSLError, OSError):
        return True


def _no_certificate(address: tuple[str, int], deployment: Deployment) -> None:
    context = ssl.create_default_context(cafile=str(deployment.federation.server / "startup" / "rootCA.pem"))
    context.check_hostname = False
    assert _refused(context, address)
    kit = deployment.federation.kit("dark") / "startup"
    context.load_cert_chain(kit / "client.crt", kit / "client.key")
    assert not _refused(context, address)  # or this test could not fail


def _certificate_of_another_authority(address: tuple[str, int], tmp_path: Path) -> None:
    other = make_federation(tmp_path / "other", ["dark"], "noisy", host=address[0], port=address[1])
    context = ssl._create_unverified_context()  # noqa: S323 - a stranger who does not care whom it talks to
    kit = other.kit("dark") / "startup"
    context.load_cert_chain(kit / "client.crt", kit / "client.key")
    assert _refused(context, address)
    (_, fine), (said, refused) = try_connection(other.kit("dark"), "dark")
    assert not fine
    assert refused
    assert "not of this federation" in said


def test_without_a_federation_one_is_made_for_the_run_and_cleared_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"benchmark": "toy", "device": "cpu", "threads": 1, "rounds": 1, "algorithm": "fact"}
    with tempfile.TemporaryDirectory(prefix="g") as place:  # short, for sockets have short names; and nobody else's
        monkeypatch.setenv("TMPDIR", place)
        monkeypatch.setattr(tempfile, "tempdir", None)
        apart = start(resolve({**values, "engine": "nvflare"}), tmp_path / "apart")
        assert not list(Path(place).glob("galafed-flare-*"))
    assert apart.summary["digest"] == start(resolve(values), tmp_path / "alone").summary["digest"]


# Minutes: make test-faults


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["gala", "fact", "kd3a"])
def test_three_rounds_on_mini_end_with_the_same_bits(algorithm: str, tmp_path: Path) -> None:
    values = {"benchmark": "mini", "device": "cpu", "threads": 1, "rounds": 3, "algorithm": algorithm}
    apart = start(resolve({**values, "engine": "nvflare"}), tmp_path / "apart")
    assert apart.summary["digest"] == start(resolve(values), tmp_path / "alone").summary["digest"]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["centroids", "train", "tune"])
@pytest.mark.parametrize("what", ["worker", "client"])
def test_a_site_killed_in_each_phase(what: str, task: str, deployment: Deployment, tmp_path: Path) -> None:
    deployment.run("toy", settings=SETTINGS | {"timeout": "15", "rounds": "4"})
    deployment.wait_for("dark", task, 2)
    deployment.kill_worker("dark") if what == "worker" else deployment.kill_client("dark")
    assert deployment.ends(240) == 0, deployment.said()
    lines = deployment.metrics()
    assert len(lines) == 4
    if not any(line["failures"] for line in lines):
        assert deployment.digest() == alone(tmp_path, timeout="15", rounds="4")
    assert "dark" in lines[3]["relevance"]  # it is back


@pytest.mark.slow
@pytest.mark.parametrize("task", ["align", "evaluate"])
def test_the_targets_worker_killed(task: str, deployment: Deployment, tmp_path: Path) -> None:
    deployment.run("toy", settings=SETTINGS)
    deployment.wait_for(TARGET, task, 1)
    deployment.kill_worker(TARGET)
    assert deployment.ends(240) == 0, deployment.said()
    assert deployment.digest() == alone(tmp_path)


@pytest.mark.slow
def test_a_whole_site_killed_and_started_again(deployment: Deployment) -> None:
    deployment.run("toy", settings=SETTINGS | {"timeout": "10", "rounds": "4"})
    deployment.wait_for("dark", "train", 2)
    deployment.kill_site("dark")
    time.sleep(3)
    deployment.start("dark")
    assert deployment.ends(240) == 0, deployment.said()
    lines = deployment.metrics()
    assert {failure["client"] for line in lines for failure in line["failures"]} <= {"dark"}
    assert "dark" in lines[-1]["relevance"]


@pytest.mark.slow
def test_a_site_killed_while_the_job_starts(deployment: Deployment) -> None:
    """FLARE has handed the job out, and it is not on the line yet: it hangs, and another one takes its place."""
    deployment.run("toy", settings=SETTINGS | {"timeout": "15", "rounds": "3"})
    log, deadline = deployment.federation.server / "log.txt", time.monotonic() + 100
    while not (log.exists() and "status changed to RUNNING" in log.read_text()):
        assert time.monotonic() < deadline, deployment.said()
        time.sleep(0.05)
    deployment.kill_site("dark")
    time.sleep(3)
    deployment.start("dark")
    assert deployment.ends(280) == 0, deployment.said()
    lines = deployment.metrics()
    assert len(lines) == 3
    assert {failure["client"] for line in lines for failure in line["failures"]} <= {"dark"}


def only_the_killed_are_named(lines: list[dict[str, Any]], sources: Sequence[str], killed: set[str]) -> None:
    """Whoever did not take part in a round is named in it, and nobody is who was never killed."""
    for line in lines:
        named = {failure["client"] for failure in line["failures"]}
        assert named <= killed
        assert set(sources) - line["relevance"].keys() <= named


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_parties_killed_at_any_moment_one_after_the_other(tmp_path: Path) -> None:
    """A site, the target, or only their process for the job, in a round or while FLARE starts the next job."""
    draw, rounds, kills = np.random.default_rng(3), 60, []
    deployment = Deployment(tmp_path, SOURCES, TARGET)
    try:
        deployment.start(env=rogue("late", 0.4))  # so that a round lasts
        deployment.run("toy", settings=SETTINGS | {"timeout": "15", "rounds": str(rounds)})
        deployment.wait_for("dark", "train", 1)
        deadline = time.monotonic() + 900
        while deployment.running["gala"].poll() is None:
            assert time.monotonic() < deadline, (kills, deployment.said())
            time.sleep(draw.uniform(0, 12))
            name, what = str(draw.choice([*SOURCES, TARGET])), str(draw.choice(["site", "worker"]))
            before, alive = len(deployment.metrics()), deployment.has_worker(name)
            if what == "site":
                deployment.kill_site(name)
                time.sleep(draw.uniform(0.5, 5))
                deployment.start(name, env=rogue("late", 0.4))
            elif alive:
                deployment.kill_worker(name)
            kills.append((name, what, before))
            patience = time.monotonic() + draw.choice([5, 90])  # sometimes before the run has found its feet
            while len(deployment.metrics()) < before + 2 and time.monotonic() < patience:
                time.sleep(0.2)
        assert deployment.ends() == 0, (kills, deployment.said())
        lines = deployment.metrics()
    finally:
        deployment.close()
    assert len(lines) == rounds
    assert len(kills) > 2
    only_the_killed_are_named(lines, SOURCES, {name for name, _, _ in kills})


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_five_of_seventeen_sites_killed_at_once_again_and_again(tmp_path: Path) -> None:
    """Thirty per cent, at a random moment of a round, and started again some seconds later."""
    draw, rounds, kills = np.random.default_rng(17), 30, []
    sources = [f"site-{number:02d}" for number in range(17)]
    settings = write_stripes(tmp_path / "images", [*sources, "target"])
    deployment = Deployment(tmp_path, sources, "target", images=tmp_path / "images")
    try:
        deployment.start(env=rogue("honest"))
        deployment.run("sites", settings=settings | {"rounds": str(rounds), "timeout": "20"})
        deployment.wait_for("target", "centroids", 1, seconds=400)
        deadline = time.monotonic() + 1000
        while deployment.running["gala"].poll() is None:
            time.sleep(draw.uniform(0, 3))
            before = len(deployment.metrics())
            five = [str(name) for name in draw.choice(sources, 5, replace=False)]
            for name in five:
                deployment.kill_site(name)
            kills.append((before, five))
            time.sleep(draw.uniform(0, 8))
            deployment.start(*five, env=rogue("honest"))
            while len(deployment.metrics()) < before + 2 and deployment.running["gala"].poll() is None:
                assert time.monotonic() < deadline, (kills, deployment.said())
                time.sleep(0.2)
        assert deployment.ends() == 0, (kills, deployment.said())
        lines = deployment.metrics()
    finally:
        deployment.close()
    assert len(lines) == rounds
    assert len(kills) > 2
    only_the_killed_are_named(lines, sources, {name for _, five in kills for name in five})


@pytest.mark.slow
def test_the_server_killed_in_the_middle_of_a_round(deployment: Deployment, tmp_path: Path) -> None:
    deployment.run("toy", settings=SETTINGS)
    deployment.wait_for("dark", "train", 2)
    deployment.kill_server()
    assert deployment.ends(240) == 0, deployment.said()
    assert deployment.digest() == alone(tmp_path)


@pytest.mark.slow
def test_the_users_process_killed_and_resumed(deployment: Deployment, tmp_path: Path) -> None:
    deployment.run("toy", settings=SETTINGS)
    deployment.wait_for("dark", "train", 2)
    deployment.running["gala"].kill()
    deployment.running["gala"].wait()
    deployment.resume()
    assert deployment.ends(240) == 0, deployment.said()
    assert deployment.digest() == alone(tmp_path)


@pytest.mark.slow
def test_below_the_quorum_the_command_ends_with_5_and_can_be_resumed(deployment: Deployment, tmp_path: Path) -> None:
    deployment.run("toy", settings=SETTINGS | {"timeout": "10", "quorum": "3"})
    deployment.wait_for("dark", "train", 1)
    deployment.kill_site("dark")
    assert deployment.ends(240) == 5, deployment.said()
    assert "dark" in deployment.said()
    deployment.start("dark")
    deployment.resume()
    assert deployment.ends(240) == 0, deployment.said()
    assert deployment.digest() == alone(tmp_path, timeout="10", quorum="3")


@pytest.mark.slow
def test_a_site_with_another_ones_name_cannot_take_its_place(deployment: Deployment, tmp_path: Path) -> None:
    """The key of faint, and the claim to be dark."""
    stolen = tmp_path / "stolen"
    shutil.copytree(deployment.federation.kit("faint"), stolen)
    settings = stolen / "startup" / "fed_client.json"
    settings.write_text(settings.read_text().replace('"faint"', '"dark"'))
    deployment.kill_site("dark")
    file = tmp_path / "rogue.toml"
    file.write_text(f'name = "dark"\nrole = "source"\nkit = "{stolen}"\n')
    checked = subprocess.run([GALA, "site", "check", str(file)], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 2
    assert "is 'faint''s" in checked.stdout
    rogue = subprocess.Popen([GALA, "site", "start", str(file)], stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        deployment.run("toy", settings=SETTINGS | {"timeout": "10"})
        assert deployment.ends(240) == 0, deployment.said()
    finally:
        rogue.terminate()
        rogue.wait(20)
    assert all("dark" not in line["relevance"] for line in deployment.metrics())
    assert not list((tmp_path / "rogue.state").glob("ledger/*"))


@pytest.mark.slow
def test_the_page_is_executed(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent
    command = [sys.executable, root / "scripts" / "run_page.py", root / "docs" / "deploy.md", tmp_path / "page"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
