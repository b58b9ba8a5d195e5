"""Large payloads on a line of their own: FLARE passes a message through four processes, piece by piece, in Python.

The process of the run keeps what it sends and receives what sites send, over TLS with the keys and certificates of the
federation's kits; FLARE carries the small messages that say what lies where. Nobody is trusted for being connected:
both sides show a certificate of the federation's authority, and a site can only put its own answer to an open question.
"""

from __future__ import annotations

import contextlib
import io
import secrets
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

from galafed.flare.kits import SERVER
from galafed.sites import frames
from galafed.sites.relay import too_large

LARGE = 2**16
"""Payloads of more bytes than this take the line of their own."""
PIECE = 2**20
HANDSHAKE = 20.0
"""Seconds in which whoever connects has to show a certificate."""
IDLE = 600.0
"""Seconds after which a connection that says nothing is closed."""


class Depot:
    """Where sites fetch requests and leave answers."""

    def __init__(self, kit: Path, host: str, port: int, spool: Path) -> None:
        self._context = _context(ssl.PROTOCOL_TLS_SERVER, kit, "server")
        self._spool = spool
        self._lock = threading.Lock()
        self._offered: dict[str, bytes] = {}
        self._open: dict[str, int] = {}
        self._arrived: dict[tuple[str, str], Path] = {}
        self._refused: dict[tuple[str, str], str] = {}
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
        """Listen no longer."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._attend, args=(line,), daemon=True).start()

    def _attend(self, line: socket.socket) -> None:
        """One connection, for as long as it lasts; whoever has no certificate of ours gets no further than that."""
        with line, contextlib.suppress(OSError, EOFError, ValueError, KeyError):
            line.settimeout(HANDSHAKE)
            with self._context.wrap_socket(line, server_side=True) as secure:
                site = _name(secure)
                secure.settimeout(IDLE)
                while True:
                    header, _ = frames.receive(secure, largest=0)  # a site announces what it has before it sends it
                    if "get" in header:
                        self._hand_out(secure, str(header["get"]))
                    else:
                        self._store(secure, str(header["put"]), site, int(header["size"]))

    def _hand_out(self, line: ssl.SSLSocket, token: str) -> None:
        """Send a request; a thread that waits for the next one must not keep this one in memory."""
        with self._lock:
            content = self._offered.get(token)
        frames.send(line, {}, [] if content is None else [content])

    def _store(self, line: ssl.SSLSocket, question: str, site: str, size: int) -> None:
        """Write an answer into a file as it comes; a second one replaces the first."""
        with self._lock:
            largest = self._open.get(question, -1)
            if reason := too_large(size, largest):
                self._refused[question, site] = reason
        welcome = 0 <= size <= largest
        frames.send(line, {"welcome": welcome, "largest": largest})
        if not welcome:
            return
        path = self._spool / f"{secrets.token_hex(8)}.safetensors"
        try:
            with path.open("xb") as file:
                _copy(line, file, size)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        with self._lock:
            before = self._arrived.get((question, site))
            if question in self._open:
                self._arrived[question, site] = path
            else:
                before = path
        if before is not None:
            before.unlink(missing_ok=True)
        frames.send(line, {"got": size})


class Errand:
    """A site's end: fetches requests and leaves answers; connects again where the line was cut."""

    def __init__(self, kit: Path, host: str) -> None:
        self._context = _context(ssl.PROTOCOL_TLS_CLIENT, kit, "client")
        self._host = host
        self._line: ssl.SSLSocket | None = None
        self._port = 0
        self._lock = threading.Lock()
        self._room = io.BytesIO()

    def fetch(self, port: int, token: str) -> bytes:
        """A request by its token."""
        with self._lock:
            line = self._connected(port)
            with self._hanging_up_on_error():
                frames.send(line, {"get": token})
                _, sizes = frames.receive_header(line)
                if sizes:
                    return self._received(line, sizes[0])
        raise OSError("the request is no longer kept; the question was ended")

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
        with self._lock:
            line = self._connected(port)
            with self._hanging_up_on_error():
                frames.send(line, {"put": question, "size": len(content)})
                welcome, _ = frames.receive(line)
                if welcome.get("welcome"):
                    line.sendall(content)
                    frames.receive(line)
                    return
        if int(welcome.get("largest", -1)) >= 0:
            raise OSError(f"the answer has {len(content)} bytes; at most {welcome['largest']} are accepted")
        raise OSError("the answer is no longer wanted; the question was ended")

    def close(self) -> None:
        """Hang up."""
        with self._lock:
            self._hang_up()

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
            if _name(line) != SERVER:  # another site's certificate is of the same authority
                line.close()
                raise OSError("whoever listens there is not the server of this federation")
            self._line, self._port = line, port
        return self._line

    @contextlib.contextmanager
    def _hanging_up_on_error(self) -> Any:
        try:
            yield
        except BaseException:
            self._hang_up()
            raise

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


def _context(side: int, kit: Path, name: str) -> ssl.SSLContext:
    """TLS 1.3 where both sides show a certificate of the federation's authority."""
    startup = kit / "startup"
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # names in the federation are checked instead
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(startup / "rootCA.pem")
    context.load_cert_chain(startup / f"{name}.crt", startup / f"{name}.key")
    return context


def _name(line: ssl.SSLSocket) -> str:
    """The name in the other side's certificate."""
    certificate: Any = line.getpeercert() or {}
    names = [value for field in certificate.get("subject", ()) for key, value in field if key == "commonName"]
    if len(names) != 1:
        raise ValueError("a certificate without a name")
    return str(names[0])


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
