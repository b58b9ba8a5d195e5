"""What FLARE runs at a site: one published method, bytes in and bytes out. The site's own file says who it is."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from nvflare.collab import collab

from galafed.flare.ending import end_with_parent
from galafed.sites.settings import read_settings, state_folder
from galafed.sites.site import Site

SITE = "GALAFED_SITE"
"""The environment variable that holds the path of the site's file; nothing in a job can change it."""


class Party:
    """Keeps the site for as long as the job lasts."""

    def __init__(self) -> None:
        self._site: Site | None = None
        self._making = threading.Lock()

    @collab.publish
    def handle(self, request: bytes) -> bytes:
        """Answer one request."""
        with self._making:
            if self._site is None:
                end_with_parent()
                path = Path(os.environ[SITE])
                self._site = Site(read_settings(path), state_folder(path))
        return self._site.handle(request)
