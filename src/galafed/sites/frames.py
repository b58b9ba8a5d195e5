"""Whole messages over a stream socket: a JSON header and byte strings, each with its length in front."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

LARGEST_HEADER = 1 << 20
LARGEST_BODY = 1 << 33
_LENGTH = struct.Struct("<Q")

Bytes = bytes | bytearray | memoryview


def send(connection: socket.socket, header: Mapping[str, Any], bodies: Sequence[Bytes] = ()) -> None:
    """Send one message."""
    text = json.dumps({**header, "sizes": [len(body) for body in bodies]}).encode()
    connection.sendall(_LENGTH.pack(len(text)) + text)
    for body in bodies:
        connection.sendall(body)


def receive(connection: socket.socket, largest: int = LARGEST_BODY) -> tuple[dict[str, Any], list[bytearray]]:
    """The next message, its parts of at most so many bytes; `EOFError` where the other side has gone, `ValueError`
    where it speaks another language."""
    header, sizes = receive_header(connection, largest)
    return header, [_exactly(connection, size) for size in sizes]


def receive_header(connection: socket.socket, largest: int = LARGEST_BODY) -> tuple[dict[str, Any], list[int]]:
    """The header of the next message and the sizes of what follows, for which no room is made yet."""
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    if length > LARGEST_HEADER:
        raise ValueError(f"a header of {length} bytes")
    header = json.loads(_exactly(connection, length))
    if not isinstance(header, dict):
        raise ValueError("a header that is no table")
    sizes = header.pop("sizes", None)
    if not isinstance(sizes, list) or not all(type(size) is int and 0 <= size <= largest for size in sizes):
        raise ValueError("a header without sizes, or with larger ones than are taken")
    return header, sizes


def fill(connection: socket.socket, room: memoryview) -> None:
    """Receive until the room is full."""
    receive = connection.recv_into  # of TLS, 16 kB at a time: whatever is done in between counts
    while room:
        if not (got := receive(room, len(room))):
            raise EOFError("the connection was closed")
        room = room[got:]


def _exactly(connection: socket.socket, size: int) -> bytearray:
    buffer = bytearray(size)
    fill(connection, memoryview(buffer))
    return buffer
