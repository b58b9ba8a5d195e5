"""Seconds and bytes of a question to N sites through Flower, on loopback, beside a plain socket copy of the same bytes.

    python benchmarks/network_flower.py [--sites 5] [--megabytes 103] [--runtimes simulation loopback supernodes cold]

loopback has our own nodes; supernodes are Flower's, with a resident worker each; cold ones are Flower's without it.

Sites answer as many bytes as they are told: few to many bytes (a broadcast), many to few (a collect), or few to few (a
small phase). No model is trained, so what is measured is the way there and back, and what Flower does on it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from network_sites import DIGITS

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


def ask(relay: Relay, names: list[str], answer: int, payload: bytes = b"") -> float:
    """Seconds from the question to the last answer."""
    heard: dict[str, Any] = {}
    started = time.perf_counter()
    relay.send(dict.fromkeys(names, str(answer).zfill(DIGITS).encode() + payload), 600, heard.__setitem__)
    seconds = time.perf_counter() - started
    for name in names:
        if not isinstance(heard.get(name), bytes) or len(heard[name]) != answer:
            raise SystemExit(f"{name}: {heard.get(name)!r:.200}")
    return seconds


def main() -> None:
    """Measure and print a table, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=103)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--runtimes", nargs="+", default=["simulation", "loopback", "supernodes", "cold"])
    arguments = parser.parse_args()
    names = [f"site-{number}" for number in range(arguments.sites)]
    size = int(arguments.megabytes * 1e6)
    low = floor(arguments.sites, size)
    print(f"{arguments.sites} sites, {size / 1e6:g} MB; floor (TCP): broadcast {low[0]:.2f} s, collect {low[1]:.2f} s")
    found: dict[str, object] = {"sites": arguments.sites, "bytes": size, "floor": low}
    for runtime in arguments.runtimes:
        with relayed(runtime, names) as (relay, start):
            first = ask(relay, names, 4)
            small = statistics.median(ask(relay, names, 4) for _ in range(2 * arguments.repeat))
            down = statistics.median(ask(relay, names, 4, os.urandom(size)) for _ in range(arguments.repeat))
            up = statistics.median(ask(relay, names, size) for _ in range(arguments.repeat))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{runtime:11} start {start:5.1f} s, first question {first:5.1f} s, small {small:6.2f} s, "
            f"broadcast {down:6.2f} s ({down / low[0]:.1f} floors), collect {up:6.2f} s ({up / low[1]:.1f} floors); "
            f"peak of this process {peak:.0f} MB"
        )
        sys.stdout.flush()
        found[runtime] = {"start": start, "first": first, "small": small, "broadcast": down, "collect": up}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
