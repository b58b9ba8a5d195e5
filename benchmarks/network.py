"""Seconds of each phase through the engines with sites, on loopback, beside a plain socket copy of the same bytes.

    python benchmarks/network.py [--sites 5] [--megabytes 103] [--engines nvflare flower-loopback flower-simulation]
    python benchmarks/network.py --rounds serial nvflare --write results/network

Sites answer as many bytes as they are told: few to many bytes (a broadcast), many to few (a collect), or few to few (a
small phase). No model is trained, so what is measured is the way there and back. The floor, to and from a process for
each site, is measured before and after every engine, for a machine is rarely alone. Memory is the largest resident size
of the process of the run, above what it had before the first large question, in payloads. `--rounds` measures whole
rounds of GALA (`network_round.py`), `--write` makes the table and the page of results/network from the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from network_flare import flare
from network_flower import relayed
from network_round import FLAGS, measure_round
from network_sites import DIGITS
from network_table import circumstances, machine, write

from galafed.sites.relay import Relay

SITE = """
import socket, sys
port, down, up = map(int, sys.argv[1:])
with socket.create_connection(("127.0.0.1", port)) as line:
    buffer = bytearray(2**20)
    while down:
        down -= line.recv_into(buffer, min(down, len(buffer)))
    line.sendall(bytes(up))
    line.recv(1)
"""
"""A site that knows nothing but bytes: takes so many, then sends so many."""


def floor(sites: int, down: int, up: int) -> float:
    """Seconds to copy bytes to that many processes over plain sockets, all at once, and to have theirs in files."""
    body = os.urandom(down)
    with socket.create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", SITE, str(server.getsockname()[1]), str(max(down, 1)), str(max(up, 1))]
        processes = [subprocess.Popen(command) for _ in range(sites)]  # noqa: S603 - our own program
        lines = [server.accept()[0] for _ in processes]

        def exchange(number: int, line: socket.socket) -> None:
            line.sendall(body or b"x")
            left, buffer = max(up, 1), bytearray(2**20)
            with (Path(folder) / str(number)).open("wb") as file:
                while left:
                    got = line.recv_into(buffer, min(left, len(buffer)))
                    file.write(memoryview(buffer)[:got])
                    left -= got
            line.close()

        threads = [threading.Thread(target=exchange, args=pair) for pair in enumerate(lines)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - started
        for process in processes:
            process.wait()
    return seconds


def line_to(engine: str, names: list[str]) -> AbstractContextManager[tuple[Relay, float]]:
    """A line to sites that play, and how long it took to start everything."""
    return flare(names) if engine == "nvflare" else relayed(engine.removeprefix("flower-"), names)


def ask(relay: Relay, names: list[str], answer: int, payload: bytes = b"") -> float:
    """Seconds from the question to the last answer; an answer in a file is read as the sums would, and let go."""
    heard: dict[str, int] = {}

    def arrived(name: str, content: Any) -> None:
        if isinstance(content, Path):
            heard[name] = content.stat().st_size
            content.unlink()
        else:
            heard[name] = len(content) if isinstance(content, bytes) else -1

    request = str(answer).zfill(DIGITS).encode() + payload
    started = time.perf_counter()
    relay.send(dict.fromkeys(names, request), 600, arrived, answer)
    seconds = time.perf_counter() - started
    if heard != dict.fromkeys(names, answer):
        raise SystemExit(f"some site did not answer: {heard}")
    return seconds


class Peak:
    """The largest resident size of this process while it lasts, in bytes."""

    def __enter__(self) -> Peak:
        self.before = self.largest = resident()
        self._going = True
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def _watch(self) -> None:
        while self._going:
            self.largest = max(self.largest, resident())
            time.sleep(0.005)

    def __exit__(self, *error: object) -> None:
        self._going = False
        self._watcher.join()


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(engine: str, names: list[str], size: int, repeat: int) -> dict[str, Any]:
    """One row of the table: medians, and the floor at that time."""
    floors = [(floor(len(names), size, 0), floor(len(names), 0, size)) for _ in range(repeat)]
    with line_to(engine, names) as (relay, start):
        first = ask(relay, names, 4)
        small = [ask(relay, names, 4) for _ in range(4 * repeat)]
        payload = os.urandom(size)
        with Peak() as peak:
            broadcast = [ask(relay, names, 4, payload) for _ in range(repeat)]
            collect = [ask(relay, names, size) for _ in range(repeat)]
    floors += [(floor(len(names), size, 0), floor(len(names), 0, size)) for _ in range(repeat)]
    down, up = map(statistics.median, zip(*floors, strict=True))
    return {
        "engine": engine,
        "start": start,
        "first": first,
        "small": statistics.median(small),
        "broadcast": statistics.median(broadcast),
        "broadcast_floor": down,
        "collect": statistics.median(collect),
        "collect_floor": up,
        "memory_payloads": (peak.largest - peak.before) / size,
    }


def main() -> None:
    """Measure and print a table, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=103)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--engines", nargs="*", default=["nvflare", "flower-loopback", "flower-simulation"])
    parser.add_argument("--rounds", nargs="*", default=[], choices=FLAGS, help="engines to do whole rounds with")
    parser.add_argument("--write", type=Path, help="the folder of the table and the page")
    options = parser.parse_args()
    names = [f"site-{number}" for number in range(options.sites)]
    size = int(options.megabytes * 1e6)
    print(f"{options.sites} sites, {size / 1e6:g} MB each way, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print("engine             start  first  small  broadcast (floors)  collect (floors)  memory in payloads")
    phases, rounds = [], []
    for engine in options.engines:
        found = circumstances()
        row = measure(engine, names, size, options.repeat) | found | {"repeat": options.repeat}
        phases.append(row)
        down, up = row["broadcast"] / row["broadcast_floor"], row["collect"] / row["collect_floor"]
        print(
            f"{engine:18} {row['start']:5.1f}s {row['first']:5.2f}s {row['small']:5.2f}s   {row['broadcast']:5.2f}s "
            f"({down:4.1f})      {row['collect']:5.2f}s ({up:4.1f})    {row['memory_payloads']:5.2f}",
            flush=True,
        )
    for engine in options.rounds:
        found = circumstances()
        rounds.append(measure_round(engine) | found)
        print(json.dumps(rounds[-1]), flush=True)
    if options.write:
        table = {"sites": options.sites, "bytes": size} | machine()
        write(options.write, table | {"phases": phases, "rounds": rounds})


if __name__ == "__main__":
    main()
