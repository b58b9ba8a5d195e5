"""The line for large payloads: what is put is what is found, and only by those who may."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from flare_harness import resident
from galafed.sites import frames
from galafed.sites.depot import LINES, Depot
from galafed.sites.errand import Errand
from galafed.sites.identity import Identity
from galafed.sites.parcel import LARGE, answered, unwrap, wrap

MODULES = {"nvflare": "galafed.flare.kits", "flower": "galafed.flower.folder"}


class Federation:
    """The certificates of a federation, as its engine makes them."""

    def __init__(self, engine: str, path: Path) -> None:
        pytest.importorskip({"nvflare": "nvflare", "flower": "flwr"}[engine])
        module = importlib.import_module(MODULES[engine])
        self.engine = engine
        self._made, self._identity_in = module.make_federation(path, ["a", "b"], "t"), module.identity_in

    def server(self) -> Identity:
        found: Identity = self._identity_in(self._made.server, "server")
        return found

    def site(self, name: str) -> Identity:
        found: Identity = self._identity_in(self._made.kit(name), "client")
        return found


@pytest.fixture(scope="module", params=MODULES)
def federation(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Federation:
    return Federation(request.param, tmp_path_factory.mktemp("depot") / "fed")


@pytest.fixture
def depot(federation: Federation, tmp_path: Path) -> Iterator[Depot]:
    made = Depot(federation.server(), "127.0.0.1", 0, tmp_path)
    yield made
    made.close()


LARGEST = 10**7
OPENED: list[Errand] = []


@pytest.fixture(autouse=True)
def hang_up() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def connection(federation: Federation, depot: Depot) -> ssl.SSLSocket:
    """A line of site a, to say on it what no honest site says."""
    plain = socket.create_connection(("127.0.0.1", depot.port), 10)
    return federation.site("a").context(ssl.PROTOCOL_TLS_CLIENT).wrap_socket(plain, server_hostname="server")


def errand(federation: Federation, site: str) -> Errand:
    OPENED.append(Errand(federation.site(site), "127.0.0.1"))
    return OPENED[-1]


def test_what_is_offered_is_fetched_by_all_and_what_is_left_is_taken_once(depot: Depot, federation: Federation) -> None:
    content, question = os.urandom(3_000_000), depot.question(LARGEST)
    token = depot.offer(content)
    answers = {site: os.urandom(2_000_000) for site in ("a", "b")}

    def visit(site: str) -> None:
        mine = errand(federation, site)
        assert mine.fetch(depot.port, token) == content
        mine.leave(depot.port, question, answers[site])

    visitors = [threading.Thread(target=visit, args=(site,)) for site in answers]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join(20)
    for site, answer in answers.items():
        path = depot.take(question, site)
        assert path is not None
        assert path.read_bytes() == answer
        assert depot.take(question, site) is None


def test_after_its_end_nothing_of_a_question_is_kept_or_accepted(
    depot: Depot, federation: Federation, tmp_path: Path
) -> None:
    question, token = depot.question(LARGEST), depot.offer(b"x" * 100)
    mine = errand(federation, "a")
    mine.leave(depot.port, question, b"y" * 1000)
    depot.end(question, [token])
    assert not list(tmp_path.iterdir())
    with pytest.raises(OSError, match="no longer kept"):
        mine.fetch(depot.port, token)
    with pytest.raises(OSError, match="no longer wanted"):
        mine.leave(depot.port, question, b"late")
    with pytest.raises(OSError, match="no longer wanted"):
        mine.leave(depot.port, "guessed", b"rogue")
    assert not list(tmp_path.iterdir())


def test_a_request_that_was_fetched_is_not_kept_by_the_line_that_waits_for_the_next(
    depot: Depot, federation: Federation
) -> None:
    class Content(bytearray):
        """Bytes that can be watched."""

    content = Content(10_000)
    gone = threading.Event()
    weakref.finalize(content, gone.set)
    question, token = depot.question(LARGEST), depot.offer(content)
    mine = errand(federation, "a")
    assert len(mine.fetch(depot.port, token)) == 10_000
    depot.end(question, [token])
    del content
    assert gone.wait(5)


def announced(line: ssl.SSLSocket, question: str, size: int) -> dict[str, object]:
    frames.send(line, {"put": question, "size": size})
    return frames.receive(line)[0]


def test_a_hostile_site_fills_neither_memory_nor_disk(depot: Depot, federation: Federation, tmp_path: Path) -> None:
    question = depot.question(LARGEST)
    with contextlib.ExitStack() as lines:
        first, second, third = (lines.enter_context(connection(federation, depot)) for _ in range(3))
        for line in (first, second):  # both begin to send and do not end
            assert announced(line, question, LARGEST)["welcome"]
        assert announced(third, question, LARGEST) == {"welcome": False, "largest": LARGEST, "busy": True}
        for number in range(100):
            assert not announced(third, f"made up {number}", 10)["welcome"]
        assert not depot._refused
        assert len(list(tmp_path.iterdir())) <= 2
    mine = errand(federation, "a")
    deadline = time.monotonic() + 5
    while depot._coming and time.monotonic() < deadline:
        time.sleep(0.01)
    mine.leave(depot.port, question, b"an honest answer, after all")
    assert depot.take(question, "a") is not None


def test_no_more_lines_are_attended_to_than_there_is_room_for(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("galafed.sites.depot.LINES", 1)
    with contextlib.closing(Depot(federation.server(), "127.0.0.1", 0, tmp_path)) as depot:
        question = depot.question(LARGEST)
        with connection(federation, depot) as held:
            assert announced(held, question, 0)["welcome"]
            frames.receive(held)
            with pytest.raises(OSError, match=r".*"), connection(federation, depot) as other:
                announced(other, question, 0)
        deadline = time.monotonic() + 5
        while depot._lines and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)
        errand(federation, "a").leave(depot.port, question, b"now there is room")


def test_a_site_can_only_answer_for_itself(depot: Depot, federation: Federation) -> None:
    question = depot.question(LARGEST)
    errand(federation, "b").leave(depot.port, question, b"of b")
    assert depot.take(question, "a") is None
    found = depot.take(question, "b")
    assert found is not None
    assert found.read_bytes() == b"of b"


def test_a_second_answer_replaces_the_first_and_leaves_no_file_behind(
    depot: Depot, federation: Federation, tmp_path: Path
) -> None:
    question, mine = depot.question(LARGEST), errand(federation, "a")
    mine.leave(depot.port, question, b"one")
    mine.leave(depot.port, question, b"two")
    found = depot.take(question, "a")
    assert found is not None
    assert found.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [found]


def test_strangers_and_plain_text_get_nowhere(
    depot: Depot, federation: Federation, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Federation(federation.engine, tmp_path_factory.mktemp("other") / "fed")
    question = depot.question(LARGEST)
    with pytest.raises(ssl.SSLError):
        errand(other, "a").leave(depot.port, question, b"x")
    with socket.create_connection(("127.0.0.1", depot.port), 5) as line:
        line.settimeout(5)
        line.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert b"HTTP" not in line.recv(100)
    assert depot.take(question, "a") is None


def test_a_site_does_not_take_another_site_for_the_server(federation: Federation, tmp_path: Path) -> None:
    """The key of b, which is of the same authority, behind the server's address."""
    rogue = Depot(federation.site("b"), "127.0.0.1", 0, tmp_path)
    try:
        with pytest.raises(OSError, match=r"not the server of this federation|unsuitable certificate purpose"):
            errand(federation, "a").fetch(rogue.port, rogue.offer(b"poisoned"))
    finally:
        rogue.close()


def test_an_answer_larger_than_the_question_allows_is_not_begun(
    depot: Depot, federation: Federation, tmp_path: Path
) -> None:
    question, mine = depot.question(1000), errand(federation, "a")
    with pytest.raises(OSError, match="has 1001 bytes; at most 1000 are accepted"):
        mine.leave(depot.port, question, b"x" * 1001)
    assert not list(tmp_path.iterdir())
    assert depot.refused(question, "a") == "its answer has 1001 bytes; at most 1000 are accepted"
    assert not depot.refused(question, "b")
    mine.leave(depot.port, question, b"x" * 1000)
    assert depot.take(question, "a") is not None


def test_no_room_is_made_for_what_a_header_claims(depot: Depot, federation: Federation) -> None:
    """A message may announce bytes of its own; here nobody has any to send but those of an answer."""
    text = json.dumps({"get": "x", "sizes": [1]}).encode()
    with connection(federation, depot) as line:
        line.sendall(len(text).to_bytes(8, "little") + text)
        line.settimeout(5)
        assert line.recv(1) == b"", "the line is cut"


LIAR = """
import sys
from pathlib import Path
from galafed.sites import frames
from galafed.sites.errand import Errand
from galafed.sites.identity import Identity
port, question, *files = sys.argv[1:]
line = Errand(Identity(*map(Path, files)), "127.0.0.1")._connected(int(port))
frames.send(line, {"put": question, "size": 1000})
frames.receive(line)
try:
    line.sendall(bytes(2**30))
except OSError:
    print("cut off")
"""


def test_a_gigabyte_takes_no_room_whether_it_is_announced_or_not(
    depot: Depot, federation: Federation, tmp_path: Path
) -> None:
    before, question = resident(os.getpid()), depot.question(LARGEST)
    with pytest.raises(OSError, match="has 1073741824 bytes; at most"):
        errand(federation, "b").leave(depot.port, question, bytes(2**30))
    files = (federation.site("a").authority, federation.site("a").certificate, federation.site("a").key)
    command = [sys.executable, "-c", LIAR, str(depot.port), question, *map(str, files)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert said.stdout.strip() == "cut off", said.stderr
    assert resident(os.getpid()) - before < 50_000_000
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1000
    errand(federation, "b").leave(depot.port, question, b"and the others are served")
    assert depot.take(question, "b") is not None


def test_a_request_that_somebody_keeps_is_not_written_over_by_the_next(depot: Depot, federation: Federation) -> None:
    mine = errand(federation, "a")
    contents = [os.urandom(size) for size in (300_000, 300_000, 299_000, 400_000)]
    kept = [mine.fetch(depot.port, depot.offer(content)) for content in contents]
    assert kept == contents
    for content in contents:  # and where nobody keeps it, the room is used again
        assert mine.fetch(depot.port, depot.offer(content)) == content


def test_a_line_that_was_cut_is_opened_again_and_a_closed_depot_answers_nobody(
    depot: Depot, federation: Federation, tmp_path: Path
) -> None:
    """A site that stays finds the depot of the next run at the same port."""
    mine = errand(federation, "a")
    assert mine.fetch(depot.port, depot.offer(b"first run")) == b"first run"
    depot.close()
    again = Depot(federation.server(), "127.0.0.1", depot.port, tmp_path)
    try:
        assert again.port == depot.port
        question = again.question(LARGEST)
        assert mine.fetch(again.port, again.offer(b"second run")) == b"second run"
        mine.leave(again.port, question, b"answer")
        assert again.take(question, "a") is not None
    finally:
        again.close()
    with pytest.raises(OSError, match=r"refused|hung up|reset"):
        mine.fetch(again.port, "token")


@pytest.mark.parametrize("silent", ["before a word", "in a word", "in an answer", "as it is sent to"])
def test_a_line_that_falls_silent_is_hung_up_on(
    depot: Depot, federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    monkeypatch.setattr("galafed.sites.depot.IDLE", 1.0)
    question, token = depot.question(LARGEST), depot.offer(os.urandom(LARGEST))
    with connection(federation, depot) as secure:
        if silent == "in a word":
            secure.sendall(b"\0")
        elif silent == "in an answer":
            frames.send(secure, {"put": question, "size": 1000})
            assert frames.receive(secure)[0]["welcome"]
            secure.sendall(b"x" * 999)
        elif silent == "as it is sent to":
            frames.send(secure, {"get": token})
        started = time.monotonic()
        while depot._lines or depot._free._value != LINES:  # type: ignore[attr-defined]
            assert time.monotonic() - started < 10
            time.sleep(0.05)
    assert time.monotonic() - started > 0.8
    assert depot.take(question, "a") is None
    assert not list(tmp_path.iterdir())


def test_a_line_on_which_something_passes_is_kept_and_a_silent_server_is_left(
    depot: Depot, federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slower than one has patience, but never silent for so long."""
    monkeypatch.setattr("galafed.sites.depot.IDLE", 1.5)
    question = depot.question(LARGEST)
    with connection(federation, depot) as secure:
        frames.send(secure, {"put": question, "size": 8})
        assert frames.receive(secure)[0]["welcome"]
        for _ in range(8):
            secure.sendall(b"x")
            time.sleep(0.5)
        assert frames.receive(secure)[0] == {"got": 8}
    assert depot.take(question, "a")


def test_a_site_gives_up_on_a_server_that_says_nothing(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("galafed.sites.errand.IDLE", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        context = federation.server().context(ssl.PROTOCOL_TLS_SERVER)

        def say_nothing() -> None:
            plain, _ = listener.accept()
            with context.wrap_socket(plain, server_side=True) as secure, contextlib.suppress(OSError):
                while secure.recv(100):
                    pass

        threading.Thread(target=say_nothing, daemon=True).start()
        started = time.monotonic()
        with pytest.raises(OSError, match="timed out"):
            errand(federation, "a").fetch(listener.getsockname()[1], "token")
        assert 0.8 < time.monotonic() - started < 10


def test_a_site_answers_a_parcel_by_the_way_it_came(depot: Depot, federation: Federation) -> None:
    mine, question = errand(federation, "a"), depot.question(LARGEST)
    table = {"port": depot.port, "question": question}
    large, small = bytes(LARGE + 1), b"small"
    assert unwrap(answered(wrap({}, small), lambda body: large + body, None)) == ({}, large + small)
    assert unwrap(answered(wrap(table, small), lambda body: body, mine)) == ({}, small)
    asked = wrap(table | {"get": depot.offer(large)})
    assert unwrap(answered(asked, lambda body: body[::-1] + small, mine)) == ({"left": True}, b"")
    left = depot.take(question, "a")
    assert left is not None
    assert left.read_bytes() == large + small
    assert "no longer kept" in unwrap(answered(wrap(table | {"get": "x"}), bytes, mine))[0]["trouble"]
    with pytest.raises(ValueError, match="no kit"):
        answered(asked, bytes, None)


def test_a_parcel_is_unwrapped_as_it_was_wrapped() -> None:
    assert unwrap(wrap({"a": 1}, b"xyz")) == ({"a": 1}, b"xyz")
    for wrong in (b"", b"abc", b"\x05\0\0\0[1,2]"):
        with pytest.raises(ValueError, match=r"table|Expecting"):
            unwrap(wrong)
