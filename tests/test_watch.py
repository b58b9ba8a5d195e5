"""The live page: for this machine alone, under an address nobody can guess, and never in the way of the run."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from galafed.report.serving import PageServer, served
from in_process import gala, toy_run


def get(address: str, **headers: str) -> tuple[int, str]:
    """Status and content of an address."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=10) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_only_the_whole_address_is_answered() -> None:
    with served(toy_run().folder, 0) as server:
        status, page = get(server.address)
        assert status == 200
        assert "accuracy-chart" in page
        host, token = server.address.rstrip("/").rsplit("/", 1)
        assert len(token) >= 20
        for wrong in (host, f"{host}/", f"{host}/{token[:-1]}/", f"{server.address}../", f"{host}/config.toml"):
            assert get(wrong)[0] == 404
        assert get(server.address, Host="evil.example:80")[0] == 404
        assert get(server.address, Host=f"localhost:{server.address.split(':')[2].split('/')[0]}")[0] == 200


def test_two_servers_have_different_addresses_and_listen_to_this_machine_alone() -> None:
    servers = [PageServer(toy_run().folder, 0) for _ in range(2)]
    try:
        assert len({server.address.rstrip("/").rsplit("/", 1)[1] for server in servers}) == 2
        assert {server._server.server_address[0] for server in servers} == {"127.0.0.1"}
    finally:
        for server in servers:
            server._server.server_close()


def test_the_page_of_a_run_that_goes_on_is_live(tmp_path: Path) -> None:
    run = Path(shutil.copytree(toy_run().folder, tmp_path / "run"))
    (run / "done").unlink()
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    with served(run, 0) as server:
        for count in (0, 1, 3):
            (run / "metrics.jsonl").write_text("".join(lines[:count]))
            page = get(server.address)[1]
            assert 'data-live="yes"' in page
            assert f"round {count} of 3 is done" in page
        (run / "done").write_text("")
        assert 'data-live="yes"' not in get(server.address)[1]


def test_before_the_folder_is_there_the_page_waits(tmp_path: Path) -> None:
    with served(tmp_path / "run", 0) as server:
        assert "The run begins" in get(server.address)[1]


def test_an_occupied_or_impossible_port_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for arguments in (["watch", toy_run().folder], ["run", "toy", "--live"]):
            answer = gala(capsys, *arguments, "--port", port)
            assert answer.code == 2
            assert f"--port {port}: cannot be used" in answer.err
    answer = gala(capsys, "watch", toy_run().folder, "--port", 70000)
    assert (answer.code, "must be from 1 to 65535" in answer.err) == (2, True)
    answer = gala(capsys, "watch", tmp_path / "nowhere")
    assert (answer.code, "holds no run" in answer.err) == (2, True)
    assert not list(tmp_path.glob("runs/*"))


def test_watch_serves_until_interrupted() -> None:
    command = [sys.executable, "-u", "-m", "galafed", "watch", str(toy_run().folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = re.findall(r"http://\S+/", process.stdout.readline())[0]
            assert get(address)[0] == 200
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, err) == (0, "")
    assert "no longer served" in out


def test_what_is_served_changes_nothing(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "galafed",
        "run",
        "toy",
        "--out",
        str(tmp_path / "run"),
        "--live",
        "--set",
        "threads=1",
    ]
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "run" / "done").read_text().strip() == toy_run().summary["digest"]
