"""What FLARE runs at a site: one published method, bytes in and bytes out. The site's own file says who it is."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from nvflare.collab import collab

from galafed.flare.ending import end_with_parent
from galafed.flare.kits import identity_in, kit_server
from galafed.sites.errand import Errand
from galafed.sites.parcel import answered
from galafed.sites.settings import read_settings, state_folder
from galafed.sites.site import Site

SITE = "GALAFED_SITE"
"""The environment variable that holds the path of the site's file; nothing in a job can change it."""


class Party:
    """Keeps the site for as long as the job lasts."""

    def __init__(self) -> None:
        self._site: Site | None = None
        self._errand: Errand | None = None
        self._making = threading.Lock()

    @collab.publish
    def handle(self, request: bytes) -> bytes:
        """Answer one request; what is large is fetched and left beside FLARE."""
        site, errand = self._ready()
        return answered(request, site.handle, errand)

    def _ready(self) -> tuple[Site, Errand]:
        with self._making:
            if self._site is None or self._errand is None:
                end_with_parent()
                path = Path(os.environ[SITE])
                settings = read_settings(path)
                kit = Path(settings.kit)
                self._errand = Errand(identity_in(kit, "client"), kit_server(kit, settings.name).rpartition(":")[0])
                self._site = Site(settings, state_folder(path))
            return self._site, self._errand
