"""A site's way to the depot of a run: it fetches large requests there, and leaves large answers."""

from __future__ import annotations

import contextlib
import io
import socket
import ssl
import threading
from collections.abc import Callable
from typing import TypeVar

from galafed.sites import frames
from galafed.sites.depot import IDLE
from galafed.sites.identity import SERVER, Identity, name_of

Done = TypeVar("Done")


class Errand:
    """A site's end: fetches requests and leaves answers; connects again where the line was cut."""

    def __init__(self, identity: Identity, host: str) -> None:
        self._context = identity.context(ssl.PROTOCOL_TLS_CLIENT)
        self._host = host
        self._line: ssl.SSLSocket | None = None
        self._port = 0
        self._lock = threading.Lock()
        self._room = io.BytesIO()

    def fetch(self, port: int, token: str) -> bytes:
        """A request by its token."""
        if (found := self._do(port, lambda line: self._fetched(line, token))) is None:
            raise OSError("the request is no longer kept; the question was ended")
        return found

    def _fetched(self, line: ssl.SSLSocket, token: str) -> bytes | None:
        frames.send(line, {"get": token})
        _, sizes = frames.receive_header(line)
        return self._received(line, sizes[0]) if sizes else None

    def _received(self, line: ssl.SSLSocket, size: int) -> bytes:
        """Bytes in the room of those before them, which the kernel need not find and clear again.

        What is handed out is never written over: where somebody still has the bytes before, `BytesIO` makes new room.
        """
        self._room.seek(0, io.SEEK_END)
        if self._room.tell() < size:
            self._room.seek(size - 1)
            self._room.write(b"\0")
        self._room.truncate(size)
        with self._room.getbuffer() as room:
            frames.fill(line, room)
        return self._room.getvalue()

    def leave(self, port: int, question: str, content: bytes) -> None:
        """An answer to an open question."""
        largest = self._do(port, lambda line: self._left(line, question, content))
        if largest is not None and largest >= 0:
            raise OSError(f"the answer has {len(content)} bytes; at most {largest} are accepted")
        if largest is not None:
            raise OSError("the answer is no longer wanted; the question was ended")

    def _left(self, line: ssl.SSLSocket, question: str, content: bytes) -> int | None:
        """Nothing, or the most bytes that would have been taken: none of a question that was ended."""
        frames.send(line, {"put": question, "size": len(content)})
        welcome, _ = frames.receive(line)
        if welcome.get("busy"):
            raise OSError("two answers of this site to the question are being taken in already")
        if not welcome.get("welcome"):
            return int(welcome.get("largest", -1))
        line.sendall(content)
        frames.receive(line)
        return None

    def close(self) -> None:
        """Hang up."""
        with self._lock:
            self._hang_up()

    def _do(self, port: int, what: Callable[[ssl.SSLSocket], Done]) -> Done:
        """Do something on the line; one that was opened for an earlier question may have been cut since then."""
        with self._lock:
            if self._line is not None and port == self._port:
                with contextlib.suppress(OSError):
                    return self._tried(port, what)
            return self._tried(port, what)

    def _tried(self, port: int, what: Callable[[ssl.SSLSocket], Done]) -> Done:
        line = self._connected(port)
        try:
            return what(line)
        except EOFError as error:
            self._hang_up()
            raise ConnectionError(f"the other side hung up ({error})") from None
        except BaseException:
            self._hang_up()
            raise

    def _connected(self, port: int) -> ssl.SSLSocket:
        if self._line is None or port != self._port:
            self._hang_up()
            plain = socket.create_connection((self._host, port), 30)
            try:
                line = self._context.wrap_socket(plain, server_hostname=SERVER)
            except BaseException:
                plain.close()
                raise
            line.settimeout(IDLE)
            if name_of(line) != SERVER:  # another site's certificate is of the same authority
                line.close()
                raise OSError("whoever listens there is not the server of this federation")
            self._line, self._port = line, port
        return self._line

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
