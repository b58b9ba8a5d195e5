"""A run's page, served to this machine alone, under an address nobody can guess, while the run goes on."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from galafed.errors import ConfigError
from galafed.report.page.document import POLICY
from galafed.report.page.run import run_page
from galafed.runs.folders import CONFIG, DONE

HOST = "127.0.0.1"
PORTS = 65535

GENERAL = "Mistakes, images and the map of features are on the page that 'gala report' writes when the run is done."
WAITING = "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=1><title>gala</title><p>The run begins …"


class PageServer:
    """Serves the page of one folder; the page is made anew from the run's records at every request."""

    def __init__(self, folder: Path, port: int) -> None:
        token = secrets.token_urlsafe(16)
        self.asked = 0.0
        self._folder = folder
        self._server = _listen(port, self._handler(token))
        self.address = f"http://{HOST}:{self._server.server_port}/{token}/"

    def serve(self) -> None:
        """Answer until interrupted."""
        try:
            self._server.serve_forever()
        finally:
            self._server.server_close()

    def start(self) -> None:
        """Answer from a thread of its own."""
        threading.Thread(target=self._server.serve_forever, name="page", daemon=True).start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()

    def wait_for_last_look(self, seconds: float = 4.0) -> None:
        """Where somebody is watching, let their page fetch the end of the run before the server goes."""
        if time.monotonic() - self.asked > seconds:
            return
        done = time.monotonic()
        while time.monotonic() - done < seconds and self.asked < done:
            time.sleep(0.05)
        time.sleep(0.2)

    def _page(self) -> bytes:
        self.asked = time.monotonic()
        if not (self._folder / CONFIG).is_file():
            return WAITING.encode()
        live = not (self._folder / DONE).exists()
        return run_page(self._folder, missing=GENERAL, live=live).html().encode()

    def _handler(self, token: str) -> type[BaseHTTPRequestHandler]:
        page: Callable[[], bytes] = self._page

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host = self.headers.get("Host", "").rpartition(":")[0]
                # A page of another site whose name was made to point here would send that name.
                known = host in (HOST, "localhost") and secrets.compare_digest(
                    self.path.encode(), f"/{token}/".encode()
                )
                content = page() if known else b"not here\n"
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", f"text/{'html' if known else 'plain'}; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Content-Security-Policy", POLICY)
                self.send_header("Cache-Control", "no-store")
                self.send_header("Referrer-Policy", "no-referrer")
                self.send_header("X-Content-Type-Options", "nosniff")
                self.end_headers()
                with contextlib.suppress(OSError):  # the reader may be gone
                    self.wfile.write(content)

            def log_message(self, format: str, *arguments: Any) -> None:
                """The terminal belongs to the run."""

        return Handler


def _listen(port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    if not 0 <= port <= PORTS:
        raise ConfigError(f"--port {port}: must be from 1 to {PORTS}, or 0 for any free one")
    try:
        server = ThreadingHTTPServer((HOST, port), handler)
    except OSError as error:
        raise ConfigError(
            f"--port {port}: cannot be used ({error.strerror}); name another, or leave it out for any free one"
        ) from None
    server.daemon_threads = True
    return server


@contextlib.contextmanager
def served(folder: Path, port: int) -> Iterator[PageServer]:
    """Serve a run's page as long as the block lasts."""
    server = PageServer(folder, port)
    server.start()
    try:
        yield server
    finally:
        server.stop()
