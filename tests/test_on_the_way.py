"""What somebody on the way between server and sites can see: nothing of a payload, not even the name of a tensor."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flare_harness import Deployment
from galafed.benchmarks.toy import Toy
from galafed.flare.kits import identity_in, make_federation
from galafed.messages import Reply
from galafed.networks.base import networks as architectures
from galafed.sites import wire
from galafed.sites.depot import Depot
from galafed.sites.errand import Errand
from giveaways import NAMES, seen
from namespaces import networks
from packets import Capture
from stripes import FEW, write_stripes


class Tap:
    """A place on the way: passes bytes on in both directions and keeps a copy."""

    def __init__(self, port: int) -> None:
        self.content = bytearray()
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                ours, _ = self._listener.accept()
            except OSError:
                return
            theirs = socket.create_connection(("127.0.0.1", self._to))
            for one, other in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with one, other:
            while True:
                try:
                    if not (got := one.recv(2**16)):
                        return
                    self.content += got
                    other.sendall(got)
                except OSError:
                    return

    def close(self) -> None:
        self._listener.close()


def test_the_line_of_large_payloads_shows_nothing_of_them(tmp_path: Path) -> None:
    federation = make_federation(tmp_path / "fed", ["a"], "t")
    depot = Depot(identity_in(federation.server, "server"), "127.0.0.1", 0, tmp_path)
    tap, mine = Tap(depot.port), Errand(identity_in(federation.kit("a"), "client"), "127.0.0.1")
    model = architectures.get("small_cnn")(classes=3, image_size=8).initial(0)
    message = wire.encode(wire.Answer("r", "a", 1, "a", Reply("a", model.parts, {}, seconds=0)))
    pixels = Toy().load("dark").train
    content = message + pixels.images.tobytes() + pixels.labels.tobytes()
    try:
        question = depot.question(10**7)
        assert mine.fetch(tap.port, depot.offer(content)) == content
        mine.leave(tap.port, question, content)
    finally:
        mine.close()
        tap.close()
        depot.close()
    assert len(tap.content) > 2 * len(content), "both ways went past the tap"
    assert not seen(bytes(tap.content))
    assert b"extractor|" in seen(content)  # or this test could not fail
    assert len(seen(content, ("dark",))) > FEW
    slices = range(0, len(content) - 64, 4096)
    assert not [start for start in slices if content[start : start + 64] in tap.content]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["nvflare", "flower"])
def test_nine_sites_with_addresses_of_their_own_and_every_packet_searched(engine: str, tmp_path: Path) -> None:
    names = [f"site-{number}" for number in range(8)] + ["target"]
    settings = write_stripes(tmp_path / "images", names) | {"rounds": "2", "timeout": "60"}
    with networks(names) as net:
        places = {name: net.place(name) for name in ("gala", *names)}
        where = {"host": net.server, "places": places, "images": tmp_path / "images"}
        deployment = Deployment(tmp_path, names[:-1], "target", engine=engine, **where)
        port = deployment.federation.port
        with Capture("bridge", (port, port + 1, port + 2), net.path("gala")) as capture:
            try:
                deployment.start()
                deployment.run("sites", settings=settings)
                assert deployment.ends(400) == 0, deployment.said()
            finally:
                deployment.close()
            row = Toy().load("bright").train.images[0][0].tobytes()
            _in_the_clear(net.place("site-0"), net.place("gala"), (net.server, port + 2), NAMES[0] + row)
        found = seen(capture.content)
    assert capture.peers == {net.server, *net.addresses.values()}, "each site from its own address"
    lines = deployment.metrics()
    assert [line["failures"] for line in lines] == [[], []]
    assert set(lines[-1]["relevance"]) == set(names[:-1])
    crossed = sum(sum(line["bytes"].values()) for line in lines)
    assert len(capture.content) > crossed / 3, "the payloads were among the packets"
    assert set(found) == {NAMES[0], row}, "nothing is seen but what was sent in the clear to try out the search"


LISTEN = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
    print(flush=True)
    server.accept()[0].recv(9999)
"""
SEND = """
import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2]))).sendall(sys.stdin.buffer.read())
"""


def _in_the_clear(site: list[str], server: list[str], address: tuple[str, int], content: bytes) -> None:
    """Send bytes from a site to the server as nobody should."""
    where = [address[0], str(address[1])]
    with subprocess.Popen([*server, sys.executable, "-c", LISTEN, *where], stdout=subprocess.PIPE) as receiver:
        assert receiver.stdout is not None
        receiver.stdout.readline()
        subprocess.run([*site, sys.executable, "-c", SEND, *where], input=content, check=True)
        receiver.wait(10)
