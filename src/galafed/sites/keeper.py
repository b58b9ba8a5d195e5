"""Ends a process group when the one who asked for it ends, however that happens: it sees its standard input close."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

GRACE = 3.0
"""Seconds between asking and killing."""


def main() -> None:
    """The program of a keeper, the first process of the group."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
