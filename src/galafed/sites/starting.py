"""A site's day: its kit belongs to one process at a time, which waits for runs and is kept going until told to stop."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from galafed.errors import ConfigError
from galafed.flower.folder import KIT as FLOWER_KIT
from galafed.sites.extras import require
from galafed.sites.processes import Processes
from galafed.sites.settings import SiteSettings, state_folder

PAUSE = 1.0
"""Seconds before a party that ended by itself is started again."""


def stay(path: Path, settings: SiteSettings, say: Callable[[str], None]) -> None:
    """Belong to the federation of the kit until interrupted."""
    kit = Path(settings.kit)
    address, command, environment = _party(path, kit, settings.name)
    logs = state_folder(path) / "logs"
    with _alone(kit):
        processes = Processes(logs)
        try:
            say(f"{settings.name}: waiting for runs from {address}; what is said goes to {logs}; stop with Ctrl-C")
            while True:
                processes.start("site", command, environment)
                processes.running["site"].wait()
                say(f"{settings.name}: ended by itself, starting again ({logs / 'site.log'} says why)")
                time.sleep(PAUSE)
        except KeyboardInterrupt:
            say(f"{settings.name}: stopped")
        finally:
            processes.close()


def _party(path: Path, kit: Path, name: str) -> tuple[str, list[str | Path | int], dict[str, str]]:
    """Of the engine that a kit is for: the server's address, and the command of a site with its environment."""
    if (kit / FLOWER_KIT).exists():
        require("flower")
        from galafed.flower import environment as flower
        from galafed.flower import folder

        return folder.kit_server(kit, name), folder.node_command(path), flower.environment(state_folder(path) / "home")
    require("nvflare")
    from galafed.flare import kits, parties

    return kits.kit_server(kit, name), parties.site_command(kit, name), parties.environment(GALAFED_SITE=str(path))


@contextlib.contextmanager
def _alone(kit: Path) -> Iterator[None]:
    """Two processes with one key would push each other out again and again."""
    with (kit / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{kit}: this site is running already; stop that one first") from None
        yield
