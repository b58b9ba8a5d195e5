"""Flower for `network.py`: a line to sites that play in one of Flower's runtimes.

simulation; loopback, with our own nodes; supernodes, Flower's with a resident worker each; cold, Flower's without it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from galafed.flower import BUNDLE, runtimes
from galafed.sites.depot_relay import DepotRelay
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
from network_sites import played
from galafed.flower.place import place_of
from galafed.flower.records import pack, unpack

app = ClientApp()

@app.train("ask")
def answer(message: Message, context: Context) -> Message:
    _, site = place_of(message.metadata.group_id, context)
    return Message(pack(played(site)(unpack(message.content))), reply_to=message)
"""
"""The client app without a worker: what a process for each message costs, with nothing but torch to load."""


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
            relay = DepotRelay(make, "Flower")
            started = time.perf_counter()
            relay.open()
            try:
                yield relay, time.perf_counter() - started
            finally:
                relay.close()
