"""What FLARE's server runs for us: it passes bytes between the process that the user started and the sites."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nvflare.collab import collab

from galafed.flare.ending import end_with_parent
from galafed.sites import frames
from galafed.sites.relay import too_large


class JobLost(Exception):
    """FLARE has given the job up; whoever is at the other end of the line will ask again, of another job."""


class Messenger:
    """Serves the socket it is told of until the other side hangs up."""

    @collab.main
    def pass_on(self) -> None:
        """Each exchange: requests from the line to the sites, and every answer back as it comes."""
        end_with_parent()
        sites = {site.name: site for site in collab.clients}
        path = str(collab.get_app_prop("relay"))
        context = collab.context
        with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(EOFError, ConnectionError, JobLost):
            line.connect(path)
            with ThreadPoolExecutor(max(len(sites), 1)) as threads:
                exchange = Exchange(line, sites, threads, context.is_aborted)
                while True:
                    exchange.once()


class Exchange:
    """Questions to sites, a thread each; one thread at a time writes to the line."""

    def __init__(
        self,
        line: socket.socket,
        sites: dict[str, Any],
        threads: ThreadPoolExecutor,
        aborted: Callable[[], bool],
    ) -> None:
        self._aborted = aborted
        self._line = line
        self._sites = sites
        self._threads = threads
        self._writing = threading.Lock()

    def once(self) -> None:
        """One exchange, from its first request to its last answer."""
        header, bodies = frames.receive(self._line)
        timeout = float(header["timeout"])
        requests = [bytes(body) for body in bodies]
        del bodies
        asked = [
            self._threads.submit(self._ask, name, requests[place], timeout, int(header["largest"]))
            for name, place in header["sites"].items()
        ]
        del requests
        for each in asked:
            each.result()

    def _ask(self, name: str, request: bytes, timeout: float, largest: int) -> None:
        if name not in self._sites:
            self._tell({"site": name, "kind": "absent", "reason": "it was not connected when the sites were gathered"})
            return
        started = time.monotonic()
        try:
            answer = self._sites[name](timeout=timeout).handle(request=request)
        except Exception as error:  # whatever became of one site, the others go on
            late = time.monotonic() - started > 0.9 * timeout
            if self._aborted() or (not late and "timed out" in str(error)):  # every call ends at once with the job
                raise JobLost from error
            reason = f"no answer came within {timeout:.0f} s" if late else _words(error)
            self._tell({"site": name, "kind": "late" if late else "lost", "reason": reason})
            return
        if isinstance(answer, bytes) and (reason := too_large(len(answer), largest)):
            self._tell({"site": name, "kind": "invalid", "reason": reason})
        elif isinstance(answer, bytes):
            self._tell({"site": name}, [answer])
        else:
            self._tell({"site": name, "kind": "invalid", "reason": f"it answered with {type(answer).__name__}"})

    def _tell(self, header: dict[str, Any], bodies: list[bytes] | None = None) -> None:
        with self._writing:
            frames.send(self._line, header, bodies or [])


def _words(error: Exception) -> str:
    """An error in one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__
