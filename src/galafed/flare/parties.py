"""Starting FLARE's parties: the server for a run, and a site for as long as it wants to belong."""

from __future__ import annotations

import os
from pathlib import Path

from galafed.flare.kits import ORGANISATION, FlareFolder
from galafed.sites.processes import BIN

HEARTBEAT = 2
"""Seconds between two signs of life of a site."""

Command = list[str | Path | int]


def server_command(federation: FlareFolder) -> Command:
    """FLARE's server, from its kit."""
    return _command("server.server_train", federation.server, "fed_server.json")


def site_command(kit: Path, name: str) -> Command:
    """A site's client, from its kit."""
    command = _command("client.client_train", kit, "fed_client.json")
    return [*command, f"uid={name}", f"heart_beat_interval={HEARTBEAT}"]


def _command(module: str, kit: Path, settings: str) -> Command:
    (kit / "transfer").mkdir(exist_ok=True, mode=0o700)
    start: Command = ["python", "-u", "-m", f"nvflare.private.fed.app.{module}", "-m", kit, "-s", settings]
    return [*start, "--set", "secure_train=true", f"org={ORGANISATION}", "config_folder=config"]


def environment(**more: str) -> dict[str, str]:
    """What FLARE's processes see; memory is given back sooner, and waiting threads do not burn a core."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    usual = {"PATH": path, "MALLOC_ARENA_MAX": "4", "OMP_WAIT_POLICY": "passive"}
    return os.environ | usual | more
