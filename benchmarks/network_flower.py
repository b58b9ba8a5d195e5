"""Flower for `network.py`: the floor, and a line to sites that play in one of Flower's runtimes.

simulation; loopback, with our own nodes; supernodes, Flower's with a resident worker each; cold, Flower's without it.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from galafed.flower import BUNDLE, runtimes
from galafed.sites import frames
from galafed.sites.relay import Relay

PLAY = Path(__file__).with_name("network_sites.py")
PROGRAM = (sys.executable, str(PLAY))
CLIENT = """
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from galafed.flower.place import place_of
from galafed.flower.records import pack, unpack
from galafed.flower.resident import ask

app = ClientApp()

@app.train("ask")
def answer(message: Message, context: Context) -> Message:
    node, site = place_of(message.metadata.group_id, context)
    return Message(pack(ask(node, site, unpack(message.content), program={program})), reply_to=message)
"""
"""The client app with another worker."""
COLD = """
import sys
import torch
sys.path.insert(0, {folder!r})
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from network_sites import Play
from galafed.flower.records import pack, unpack

app = ClientApp()

@app.train("ask")
def answer(message: Message, context: Context) -> Message:
    return Message(pack(Play().handle(unpack(message.content))), reply_to=message)
"""
"""The client app without a worker: what a process for each message costs, with nothing but torch to load."""


def floor(sites: int, size: int) -> tuple[float, float]:
    """Seconds to send `size` bytes to each site over TCP, all at once, and to have them all back."""
    body = os.urandom(size)
    seconds = []
    for there, back in ((body, b""), (b"", body)):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]

            def site(port: int = port, back: bytes = back) -> None:
                with socket.create_connection(("127.0.0.1", port)) as line:
                    frames.receive(line)
                    frames.send(line, {}, [back])

            threads = [threading.Thread(target=site) for _ in range(sites)]
            for thread in threads:
                thread.start()
            lines = [server.accept()[0] for _ in threads]
            started = time.perf_counter()

            def exchange(line: socket.socket, there: bytes = there) -> None:
                with line:
                    frames.send(line, {}, [there])
                    frames.receive(line)

            askers = [threading.Thread(target=exchange, args=(line,)) for line in lines]
            for asker in askers:
                asker.start()
            for thread in (*askers, *threads):
                thread.join()
            seconds.append(time.perf_counter() - started)
    return seconds[0], seconds[1]


@contextmanager
def relayed(runtime: str, names: list[str]) -> Iterator[tuple[Relay, float]]:
    """A line to sites that play, and the seconds it took to start everything."""
    sources, target = names[:-1], names[-1]
    with tempfile.TemporaryDirectory() as temporary:
        state, bundle = Path(temporary) / "state", Path(temporary) / "bundle"
        shutil.copytree(BUNDLE, bundle)
        client = COLD.format(folder=str(PLAY.parent)) if runtime == "cold" else CLIENT.format(program=PROGRAM)
        (bundle / "galafed_flower" / "client.py").write_text(client)

        def make() -> runtimes.Link:
            if runtime == "simulation":
                return runtimes.Simulation(sources, target, state, threads=1)
            return runtimes.Loopback(sources, target, state, supernodes=runtime in ("supernodes", "cold"))

        with (
            mock.patch.object(runtimes, "BUNDLE", bundle),
            mock.patch.object(runtimes, "node_command", lambda site: ["python", PLAY, site]),
        ):
            relay = Relay(make, "Flower")
            started = time.perf_counter()
            relay.open()
            try:
                yield relay, time.perf_counter() - started
            finally:
                relay.close()
