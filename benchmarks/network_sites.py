"""Sites that answer as many bytes as they are told, for `network.py`: a node, or the worker of a SuperNode."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

Handler = Callable[[bytes], bytes]
DIGITS = 12
"""A request starts with the size of its answer, in so many digits."""


class Play:
    """Answers with random bytes, other ones every time: Flower stores equal chunks once."""

    def __init__(self) -> None:
        self._bytes = b""
        self._turn = 0

    def handle(self, request: bytes) -> bytes:
        """As many bytes as the request says."""
        size = int(request[:DIGITS])
        if len(self._bytes) < size + 1000:
            self._bytes = os.urandom(size + 1000)
        self._turn = (self._turn + 1) % 1000
        return self._bytes[self._turn : self._turn + size]


def main() -> None:
    """`network_sites.py SITE.toml`, or as a worker `network_sites.py SOCKET PARENT IDLE`."""
    from galafed.flower.place import carried

    if len(sys.argv) > 2:
        from galafed.flower.worker import serve as work

        work(Path(sys.argv[1]), played, parent=int(sys.argv[2]), idle=float(sys.argv[3]))
        return
    from galafed.flower.folder import kit_server
    from galafed.flower.node import serve
    from galafed.sites.settings import read_settings

    settings = read_settings(Path(sys.argv[1]))
    kit = Path(settings.kit)
    address = kit_server(kit, settings.name)

    def make() -> Handler:
        return carried(Play().handle, settings.kit, settings.name)

    serve(address, kit / "ca.crt", kit / "node.key", make, kit / "note")


def played(text: str) -> Handler:
    """In place of the site that a question of Flower's names."""
    from galafed.flower import place
    from galafed.sites import site

    with mock.patch.object(site, "Site", return_value=Play()):
        return place.site_of(text)


if __name__ == "__main__":
    main()
