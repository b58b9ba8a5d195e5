"""Large payloads on a line of their own: FLARE and Flower pass a message on piece by piece, through several processes.

The process of the run keeps what it sends and receives what sites send, over TLS with the keys and certificates of the
federation's kits; FLARE or Flower carries the small messages that say what lies where. Nobody is trusted for being
connected: both sides show a certificate of the federation's authority, and a site can only put its own answer to an
open question.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from galafed.sites import frames
from galafed.sites.identity import Identity, name_of
from galafed.sites.relay import too_large

PIECE = 2**20
HANDSHAKE = 20.0
"""Seconds in which whoever connects has to show a certificate."""
IDLE = 600.0
"""Seconds after which a connection that says nothing is closed."""
LINES = 512
"""Connections that are attended to at a time; whoever comes then is hung up on."""
ATTEMPTS = 2
"""Answers of a site to one question that may be on their way at a time: one, and one whose line was cut unnoticed."""


class Depot:
    """Where sites fetch requests and leave answers."""

    def __init__(self, identity: Identity, host: str, port: int, spool: Path) -> None:
        self._context = identity.context(ssl.PROTOCOL_TLS_SERVER)
        self._spool = spool
        self._lock = threading.Lock()
        self._offered: dict[str, bytes] = {}
        self._open: dict[str, int] = {}
        self._arrived: dict[tuple[str, str], Path] = {}
        self._refused: dict[tuple[str, str], str] = {}
        self._coming: Counter[tuple[str, str]] = Counter()
        self._free = threading.BoundedSemaphore(LINES)
        self._lines: set[socket.socket] = set()
        self._closed = False
        self._listener = _listen(host, port)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def question(self, largest: int) -> str:
        """Begin a question: from now on its answers may be left, each of at most so many bytes."""
        token = secrets.token_hex(16)
        with self._lock:
            self._open[token] = largest
        return token

    def offer(self, content: bytes) -> str:
        """Keep a request for whoever is told its token."""
        token = secrets.token_hex(16)
        with self._lock:
            self._offered[token] = content
        return token

    def take(self, question: str, site: str) -> Path | None:
        """The file a site has left as its answer."""
        with self._lock:
            return self._arrived.pop((question, site), None)

    def refused(self, question: str, site: str) -> str:
        """Why the answer of a site was not taken in, or nothing."""
        with self._lock:
            return self._refused.get((question, site), "")

    def end(self, question: str, tokens: list[str]) -> None:
        """End a question: nothing of it is kept, and what comes late is refused."""
        with self._lock:
            self._open.pop(question, None)
            self._refused = {key: reason for key, reason in self._refused.items() if key[0] != question}
            for token in tokens:
                self._offered.pop(token, None)
            left = [self._arrived.pop(key) for key in list(self._arrived) if key[0] == question]
        for path in left:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Listen no longer, and hang up: a site that stays must not take this for the depot of a later run."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            self._closed = True
            lines = list(self._lines)
        for line in lines:
            with contextlib.suppress(OSError):  # below TLS: what is being sent must not go on without it
                socket.socket.shutdown(line, socket.SHUT_RDWR)

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            if self._free.acquire(blocking=False):
                threading.Thread(target=self._attend, args=(line,), daemon=True).start()
            else:
                line.close()

    def _attend(self, line: socket.socket) -> None:
        """One connection, for as long as it lasts; whoever has no certificate of ours gets no further than that."""
        broken = contextlib.suppress(OSError, EOFError, ValueError, KeyError)
        with contextlib.ExitStack() as last, line, broken:
            last.callback(self._free.release)
            line.settimeout(HANDSHAKE)
            with self._context.wrap_socket(line, server_side=True) as secure, self._noted(secure):
                site = name_of(secure)
                secure.settimeout(IDLE)
                while True:
                    header, _ = frames.receive(secure, largest=0)  # a site announces what it has before it sends it
                    if "get" in header:
                        self._hand_out(secure, str(header["get"]))
                    else:
                        self._store(secure, str(header["put"]), site, int(header["size"]))

    @contextlib.contextmanager
    def _noted(self, line: ssl.SSLSocket) -> Iterator[None]:
        """Keep in mind that a line is open."""
        with self._lock:
            if self._closed:
                raise OSError("the depot is closed")
            self._lines.add(line)
        try:
            yield
        finally:
            with self._lock:
                self._lines.discard(line)

    def _hand_out(self, line: ssl.SSLSocket, token: str) -> None:
        """Send a request; a thread that waits for the next one must not keep this one in memory."""
        with self._lock:
            content = self._offered.get(token)
        frames.send(line, {}, [] if content is None else [content])

    def _store(self, line: ssl.SSLSocket, question: str, site: str, size: int) -> None:
        """Write an answer into a file as it comes; a second one replaces the first."""
        with self._lock:
            largest, busy = self._open.get(question, -1), self._coming[question, site] >= ATTEMPTS
            if largest >= 0 and (reason := too_large(size, largest)):
                self._refused[question, site] = reason
            welcome = 0 <= size <= largest and not busy
            if welcome:
                self._coming[question, site] += 1
        try:
            frames.send(line, {"welcome": welcome, "largest": largest, "busy": busy})
            if welcome:
                self._keep(question, site, self._written(line, size))
                frames.send(line, {"got": size})
        finally:
            if welcome:
                with self._lock:
                    self._coming -= Counter({(question, site): 1})

    def _written(self, line: ssl.SSLSocket, size: int) -> Path:
        """A file of what comes; none where the line is cut before the end."""
        path = self._spool / f"{secrets.token_hex(8)}.safetensors"
        try:
            with path.open("xb") as file:
                _copy(line, file, size)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def _keep(self, question: str, site: str, path: Path) -> None:
        """An answer to a question that is open still."""
        with self._lock:
            before = self._arrived.get((question, site))
            if question in self._open:
                self._arrived[question, site] = path
            else:
                before = path
        if before is not None:
            before.unlink(missing_ok=True)


def _listen(host: str, port: int) -> socket.socket:
    """A listener at the port or, where that is taken, at any other; sites are told which."""
    place = host if host in ("127.0.0.1", "localhost", "::1") else ""
    try:
        return socket.create_server((place, port), backlog=128)
    except OSError:
        return socket.create_server((place, 0), backlog=128)


def _copy(line: ssl.SSLSocket, file: Any, size: int) -> None:
    room = memoryview(bytearray(min(size, PIECE)))
    while size:
        piece = room[: min(size, PIECE)]
        frames.fill(line, piece)  # TLS hands out 16 kB at a time, which would be as many writes
        file.write(piece)
        size -= len(piece)
