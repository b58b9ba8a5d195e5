"""Downloads from a real server of this machine: whole, resumed, refused, or explained."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from galafed import downloads, transfer
from galafed.errors import ConfigError, DataError, SaveError
from galafed.transfer import RemoteFile, fetch_file

CONTENT = bytes(range(256)) * 5000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PAGE = "https://example.org/page"


class Server(ThreadingHTTPServer):
    """Serves CONTENT, and misbehaves as told."""

    daemon_threads = True
    content = CONTENT
    ranges = True
    break_after: list[int]
    """Bytes sent before the connection is cut, one entry a request; then nothing is cut."""
    asked: list[str]
    """The range of each request."""
    status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/data.bin"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range", "")
        self.server.asked.append(wanted)
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        start = int(wanted[6:-1]) if wanted and self.server.ranges else 0
        total = len(self.server.content)
        if start >= total:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{total}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = self.server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.break_after:
            body = body[: self.server.break_after.pop(0)]
            self.close_connection = True
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server(("127.0.0.1", 0), Handler) as running:
        running.break_after = []
        running.asked = []
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def remote(*urls: str, size: int | None = len(CONTENT), sha256: str = SHA256) -> RemoteFile:
    return RemoteFile(name="data.bin", urls=urls, sha256=sha256, size=size)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_fetched_whole_and_only_once(server: Server, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    folder = tmp_path / "ein Ordner"
    path = fetch_file(remote(server.url), folder, PAGE, lambda *step: told.append(step))
    assert path.read_bytes() == CONTENT
    assert names(folder) == ["data.bin"]
    assert told[-1] == ("data.bin", len(CONTENT), len(CONTENT))
    done = [step[1] for step in told]
    assert len(done) > 1
    assert done == sorted(done)
    fetch_file(remote(server.url), folder, PAGE)
    assert server.asked == [""]


@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_a_transfer_that_breaks_off_is_continued_at_once(server: Server, tmp_path: Path, size: int | None) -> None:
    server.break_after = [600_000, 300_000]
    path = fetch_file(remote(server.url, size=size), tmp_path, PAGE)
    assert path.read_bytes() == CONTENT
    assert len(server.asked) == 3
    starts = [int(wanted[6:-1] or 0) if wanted else 0 for wanted in server.asked]
    assert 0 == starts[0] < starts[1] <= 600_000
    assert starts[1] < starts[2] <= 900_000


def test_a_transfer_is_resumed_by_the_next_run(server: Server, tmp_path: Path) -> None:
    server.break_after = [500_000] + [0] * 20
    with pytest.raises(DataError, match=r"data\.bin could not be fetched.*broke off.*What arrived is kept"):
        fetch_file(remote(server.url), tmp_path, PAGE)
    assert names(tmp_path) == [".data.bin.partial"]
    kept = (tmp_path / ".data.bin.partial").stat().st_size
    assert 0 < kept <= 500_000
    server.break_after = []
    server.asked.clear()
    told: list[int] = []
    path = fetch_file(remote(server.url), tmp_path, PAGE, lambda name, done, total: told.append(done))
    assert path.read_bytes() == CONTENT
    assert server.asked == [f"bytes={kept}-"]
    assert told[0] > kept
    assert names(tmp_path) == ["data.bin"]


def test_a_server_without_ranges_sends_all_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / ".data.bin.partial").write_bytes(CONTENT[:1000])
    assert fetch_file(remote(server.url), tmp_path, PAGE).read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-"]


@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_a_part_that_is_all_or_more(server: Server, tmp_path: Path, size: int | None) -> None:
    (tmp_path / ".data.bin.partial").write_bytes(CONTENT)
    assert fetch_file(remote(server.url, size=size), tmp_path, PAGE).read_bytes() == CONTENT
    assert "" not in server.asked  # never asked for the whole
    (tmp_path / "data.bin").unlink()
    (tmp_path / ".data.bin.partial").write_bytes(CONTENT + b"more")
    assert fetch_file(remote(server.url, size=size), tmp_path, PAGE).read_bytes() == CONTENT


def test_a_part_of_something_else_is_dropped(server: Server, tmp_path: Path) -> None:
    (tmp_path / ".data.bin.partial").write_bytes(b"x" * 1000)
    assert fetch_file(remote(server.url), tmp_path, PAGE).read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-", ""]


def test_a_wrong_checksum_is_removed_and_told(server: Server, tmp_path: Path) -> None:
    server.content = b"<html>please log in</html>"
    with pytest.raises(DataError) as caught:
        fetch_file(remote(server.url), tmp_path, PAGE)
    message = str(caught.value)
    assert "another checksum and was removed" in message
    assert PAGE in message
    assert str(tmp_path) in message
    assert names(tmp_path) == []
    assert server.asked == [""]


def test_a_changed_file_is_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"changed")
    assert fetch_file(remote(server.url), tmp_path, PAGE).read_bytes() == CONTENT


def test_offline_with_a_changed_file_says_so(server: Server, tmp_path: Path) -> None:
    server.status = 503
    (tmp_path / "data.bin").write_bytes(b"changed")
    with pytest.raises(DataError, match=r"503.*The file that is there has another checksum"):
        fetch_file(remote(server.url), tmp_path, PAGE)
    assert (tmp_path / "data.bin").read_bytes() == b"changed"


def test_the_next_address_helps(server: Server, tmp_path: Path) -> None:
    gone = "http://127.0.0.1:9/data.bin"
    assert fetch_file(remote(gone, server.url), tmp_path, PAGE).read_bytes() == CONTENT


@pytest.mark.parametrize("status", [404, 500])
def test_a_server_that_refuses(server: Server, tmp_path: Path, status: int) -> None:
    server.status = status
    with pytest.raises(DataError, match=f"the server answers {status}"):
        fetch_file(remote(server.url), tmp_path, PAGE)


def test_no_server_says_what_to_get_where_and_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(DataError) as caught:
        fetch_file(remote("http://127.0.0.1:9/data.bin"), tmp_path / "new", PAGE)
    message = str(caught.value)
    assert "data.bin could not be fetched (http://127.0.0.1:9/data.bin: no connection)" in message
    assert f"get it from {PAGE} and put it into {tmp_path / 'new'}" in message
    assert caught.value.exit_code == 3


def test_a_server_that_is_silent(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "TIMEOUT_SECONDS", (1, 0.2))
    hold = threading.Event()
    monkeypatch.setattr(Handler, "do_GET", lambda self: hold.wait(5))
    try:
        with pytest.raises(DataError, match="does not answer"):
            fetch_file(remote(server.url), tmp_path, PAGE)
    finally:
        hold.set()


def test_a_full_disk_is_told_before_anything_is_sent(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SaveError, match="free some space"):
        fetch_file(remote(server.url, size=2**62), tmp_path, PAGE)
    assert server.asked == []
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SaveError, match="could not be written"):
        fetch_file(remote(server.url), tmp_path / "file", PAGE)


def test_many_at_once_fetch_once(server: Server, tmp_path: Path) -> None:
    found: list[bytes] = []

    def one() -> None:
        found.append(fetch_file(remote(server.url), tmp_path, PAGE).read_bytes())

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [CONTENT] * 4
    assert server.asked == [""]


# The table


def test_table() -> None:
    for name, entry in downloads.SOURCES.items():
        assert re.fullmatch("[a-z0-9_]+", name)
        assert bool(entry.files) != bool(entry.by_hand)
        assert entry.page.startswith("http")
        for file in entry.files:
            assert re.fullmatch("[0-9a-f]{64}", file.sha256)
            assert all(url.endswith("/" + file.name) for url in file.urls)
            assert file.urls
    sums = [file.sha256 for entry in downloads.SOURCES.values() for file in entry.files]
    assert len(set(sums)) == len(sums) == 8


def test_a_data_set_is_fetched_to_its_folder(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path))
    monkeypatch.delenv("GALAFED_DATA", raising=False)
    entry = downloads.Source(title="Things", page=PAGE, licence="free", files=(remote(server.url),))
    monkeypatch.setitem(downloads.SOURCES, "things", entry)
    assert downloads.find("things/data.bin") is None
    assert downloads.data_folder() is None
    assert downloads.fetch("things") == (tmp_path / "raw" / "things" / "data.bin",)
    assert downloads.find("nothing", "things/data.bin") == tmp_path / "raw" / "things" / "data.bin"
    assert downloads.data_folder() == tmp_path / "raw"


def test_data_sets_without_a_link_are_explained(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"TMNIST_Data\.csv; put it into") as caught:
        downloads.fetch("tmnist", tmp_path)
    assert "kaggle.com" in str(caught.value)
    with pytest.raises(ConfigError, match="Did you mean 'mnist'"):
        downloads.fetch("minst", tmp_path)


def test_where_to_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path))
    monkeypatch.delenv("GALAFED_DATA", raising=False)
    text = downloads.where_to_get("svhn")
    assert "train_32x32.mat, test_32x32.mat" in text
    assert "http://ufldl.stanford.edu/housenumbers/ (licence: non-commercial use only)" in text
    assert str(tmp_path / "raw" / "svhn") in text
    monkeypatch.setenv("GALAFED_DATA", str(tmp_path / "mine"))
    assert str(tmp_path / "mine" / "syn") in downloads.where_to_get("syn")


def test_the_users_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GALAFED_DATA", str(tmp_path / "mine"))
    with pytest.raises(DataError, match="GALAFED_DATA"):
        downloads.find("a")
    for folder, name in (("mine", "b"), ("cache/raw", "a"), ("cache/raw", "b")):
        path = tmp_path / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert downloads.data_folder() == tmp_path / "mine"
    assert downloads.find("a") == tmp_path / "cache" / "raw" / "a"
    assert downloads.find("b") == tmp_path / "mine" / "b"
    assert downloads.find("a", "b") == tmp_path / "mine" / "b"
    assert downloads.find("c") is None


@pytest.mark.skipif(not os.environ.get("GALAFED_ONLINE"), reason="set GALAFED_ONLINE to fetch the public files")
@pytest.mark.parametrize("name", [name for name, entry in downloads.SOURCES.items() if entry.files])
def test_the_public_files_are_there(tmp_path: Path, name: str) -> None:
    downloads.fetch(name, tmp_path)
