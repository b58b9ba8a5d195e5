"""Parties with networks of their own: a namespace for each, joined by a bridge. Nothing touches the machine's own."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SUBNET = "10.77.0"


class Networks:
    """A namespace for the server, with a bridge at SUBNET.1, and one for each site, with an address of its own."""

    def __init__(self, sites: Sequence[str]) -> None:
        self.server = f"{SUBNET}.1"
        self.addresses = {name: f"{SUBNET}.{number}" for number, name in enumerate(sites, start=2)}
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        for name in ("gala", *self.addresses):
            self._holders[name] = _holder()
        self._ip("gala", "link", "set", "lo", "up")
        self._ip("gala", "link", "add", "bridge", "type", "bridge")
        self._ip("gala", "addr", "add", f"{self.server}/24", "dev", "bridge")
        self._ip("gala", "link", "set", "bridge", "up")
        for number, (name, address) in enumerate(self.addresses.items()):
            peer = ("peer", "name", "eth", "netns", str(self._holders[name].pid))
            self._ip("gala", "link", "add", f"to{number}", "type", "veth", *peer)
            self._ip("gala", "link", "set", f"to{number}", "master", "bridge", "up")
            self._ip(name, "link", "set", "lo", "up")
            self._ip(name, "addr", "add", f"{address}/24", "dev", "eth")
            self._ip(name, "link", "set", "eth", "up")

    def path(self, name: str) -> Path:
        """The file of a party's namespace."""
        return Path(f"/proc/{self._holders[name].pid}/ns/net")

    def place(self, name: str) -> list[str]:
        """What starts a command in a party's namespace."""
        return ["nsenter", f"--net={self.path(name)}"]

    def _ip(self, name: str, *arguments: str) -> None:
        done = subprocess.run([*self.place(name), "ip", *arguments], capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"ip {' '.join(arguments)}: {done.stderr}")

    def close(self) -> None:
        """The namespaces go with the processes that hold them."""
        for holder in self._holders.values():
            holder.kill()
            holder.wait()


def _holder() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["unshare", "--net", "sleep", "3600"], stderr=subprocess.DEVNULL)
    ours, theirs = Path("/proc/self/ns/net").readlink(), Path(f"/proc/{process.pid}/ns/net")
    while process.poll() is None and theirs.readlink() == ours:
        time.sleep(0.01)
    if process.poll() is not None:
        raise PermissionError("no network namespace can be made")
    return process


@contextlib.contextmanager
def networks(sites: Sequence[str]) -> Iterator[Networks]:
    """Namespaces for as long as a test lasts; where none can be made, the test is skipped."""
    try:
        made = Networks(sites)
    except OSError as error:
        pytest.skip(f"network namespaces cannot be made here: {error}")
    try:
        yield made
    finally:
        made.close()
