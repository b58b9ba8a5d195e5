"""What really crosses a network, packet by packet, as somebody on the way sees it. Needs the right to look."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

EVERY_KIND = 3
"""ETH_P_ALL."""
OUTGOING = 4
"""PACKET_OUTGOING: on loopback every packet is seen twice."""
BUFFER = 2**26
NEW_NETWORK = 0x40000000
"""CLONE_NEWNET."""

MOST_LEFT = 10**6
"""Packets that are read, at most, once the capture has ended: those that had come, and were not read yet."""


class Capture:
    """The bytes of every TCP connection of some ports on an interface, perhaps in another network namespace."""

    def __init__(self, interface: str, ports: Iterable[int], namespace: Path | None = None) -> None:
        self._ports = frozenset(ports)
        self._flows: defaultdict[tuple[bytes, int, bytes, int], bytearray] = defaultdict(bytearray)
        self._ended = threading.Event()
        self._opened = threading.Event()
        self._refused: OSError | None = None
        self._watcher = threading.Thread(target=self._watch, args=(interface, namespace))

    def __enter__(self) -> Capture:
        self._watcher.start()
        self._opened.wait()
        if self._refused is not None:
            self._watcher.join()
            raise self._refused
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._watcher.join()

    @property
    def content(self) -> bytes:
        """Everything that was seen, connection by connection."""
        return b"\n".join(bytes(flow) for flow in list(self._flows.values()))

    @property
    def peers(self) -> set[str]:
        """The addresses that sent something."""
        return {socket.inet_ntoa(key[0]) for key in list(self._flows)}

    def _watch(self, interface: str, namespace: Path | None) -> None:
        try:
            if namespace is not None:
                _enter(namespace)  # of this thread alone
            line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_KIND))
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
            line.bind((interface, 0))
            line.settimeout(0.1)
        except OSError as error:
            self._refused = error
            return
        finally:
            self._opened.set()
        with line:
            left = MOST_LEFT
            while left > 0:
                try:
                    packet, (_, _, kind, *_) = line.recvfrom(2**18)
                except TimeoutError:  # all that had come by now was read
                    if self._ended.is_set():
                        return
                    continue
                left -= self._ended.is_set()
                if kind != OUTGOING or interface != "lo":
                    self._keep(packet)

    def _keep(self, packet: bytes) -> None:
        if packet[12:14] != b"\x08\x00" or packet[23] != socket.IPPROTO_TCP:
            return
        start = 14 + 4 * (packet[14] & 15)
        there, here = (int.from_bytes(packet[start + side : start + side + 2], "big") for side in (0, 2))
        if {there, here} & self._ports:
            key = (packet[26:30], there, packet[30:34], here)
            self._flows[key] += packet[start + 4 * (packet[start + 12] >> 4) :]


def _enter(namespace: Path) -> None:
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def captured_on_loopback(*ports: int) -> Iterator[Capture | None]:
    """What crosses this machine's loopback interface on some ports; nothing where one may not look."""
    capture = Capture("lo", ports)
    try:
        capture.__enter__()
    except OSError:
        yield None
        return
    with contextlib.ExitStack() as stack:
        stack.push(capture)
        yield capture
