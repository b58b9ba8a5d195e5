"""A site that stays: Flower starts a process for each message, and this one keeps torch, the data and the site warm.

`python -m galafed.flower.worker SOCKET PARENT IDLE` serves one question at a time and ends with its parent, the process
that starts Flower's client processes, or after an idle time.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from galafed.sites import frames

Handler = Callable[[bytes], bytes]
"""What a site does: a request in, an answer out."""
MakeHandler = Callable[[str], Handler]
"""From what a question says of its site (a settings file, or a domain to play) to the site."""


def serve(path: Path, make: MakeHandler, *, parent: int, idle: float) -> None:
    """Answer questions until the parent is gone or nobody has asked for `idle` seconds."""
    _end_with(parent, path.parent)
    handlers: dict[str, Handler] = {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.settimeout(idle)
        # Under its name only when it listens: whoever finds it can connect.
        unready = path.with_name("unready")
        unready.unlink(missing_ok=True)
        listener.bind(str(unready))
        listener.listen(64)
        os.replace(unready, path)
        try:
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError, EOFError, ValueError):
                    _answer(connection, handlers, make)
        except TimeoutError:
            shutil.rmtree(path.parent, ignore_errors=True)


def _answer(connection: socket.socket, handlers: dict[str, Handler], make: MakeHandler) -> None:
    """One question; what cannot be answered is told in words, and the worker lives on."""
    header, bodies = frames.receive(connection)
    try:
        site = str(header["site"])
        if site not in handlers:
            handlers[site] = make(site)
        answer = handlers[site](bytes(bodies[0]))
    except Exception as error:
        frames.send(connection, {"error": f"{type(error).__name__}: {error}"})
    else:
        frames.send(connection, {}, [answer])


def _end_with(parent: int, folder: Path) -> None:
    """End this process as soon as another one ends, even in the middle of work: what a site keeps is written whole."""
    descriptor = os.pidfd_open(parent)

    def watch() -> None:
        select.select([descriptor], [], [])
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """The program of a worker."""
    from galafed.flower.place import site_of

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    path, parent, idle = sys.argv[1:]
    with contextlib.suppress(ProcessLookupError):  # the parent was gone before we looked: there is nothing to do
        serve(Path(path), site_of, parent=int(parent), idle=float(idle))


if __name__ == "__main__":
    main()
