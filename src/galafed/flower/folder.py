"""The folder of a federation on Flower: the SuperLink's keys and settings, and a kit for each site to carry away."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import tomli_w

from galafed.errors import ConfigError
from galafed.runs.files import new_folder
from galafed.sites.federation_folder import FederationFolder, check_new
from galafed.sites.identity import SERVER, Identity
from galafed.sites.settings import NAME

KIT = "kit.toml"
CONNECTION = "galafed"
"""The name of the SuperLink in Flower's own configuration file."""

Command = list[str | Path | int]


class FlowerFolder(FederationFolder):
    """A federation on Flower: its server is a SuperLink."""

    engine = "flower"

    @property
    def home(self) -> Path:
        """Flower's own folder for the server's commands."""
        return self.server / "home"

    def link_command(self) -> Command:
        """The SuperLink: TLS, and no node whose key is not registered."""
        server = self.server
        certificates = ("--ssl-ca-certfile", server / "ca.crt", "--ssl-certfile", server / "server.crt")
        keys = ("--ssl-keyfile", server / "server.key", "--enable-supernode-auth")
        return ["flower-superlink", *certificates, *keys, "--host", self.host, "--port", self.port]


def make_federation(
    path: Path, sources: Sequence[str], target: str, *, host: str = "127.0.0.1", port: int = 9092
) -> FlowerFolder:
    """Make an authority, the SuperLink's certificate, and a kit with a key for each named site."""
    from galafed.flower.keys import make_certificates, make_node_key

    path = path.absolute()
    names = (*sources, target)
    for name in names:
        if not re.fullmatch(NAME, name) or name == SERVER:
            raise ConfigError(f"a site cannot be called {name!r}: letters, digits, dots, dashes and underscores")
    check_new(path, names)
    with new_folder(path) as temporary:
        folder = FlowerFolder(temporary, host, port, names, target)
        os.chmod(temporary, 0o700)
        folder.home.mkdir(parents=True)
        for name in names:
            kit = folder.kit(name)
            kit.mkdir(parents=True, mode=0o700)
            make_node_key(kit)
            (kit / KIT).write_text(tomli_w.dumps({"engine": "flower", "name": name, "server": folder.address}))
        make_certificates(folder.server, host, {name: folder.kit(name) for name in names})
        write_connection(folder.home, {"address": folder.address, "root-certificates": str(path / "server" / "ca.crt")})
        folder.write()
    return FlowerFolder.read(path)


def identity_in(kit: Path, side: Literal["server", "client"]) -> Identity:
    """Who a party with this kit is on the line for large payloads."""
    if not (kit / f"{side}.crt").exists():
        raise ConfigError(f"{kit} has no {side}.crt: an earlier version of galafed made it; make the federation again")
    return Identity(kit / "ca.crt", kit / f"{side}.crt", kit / f"{side}.key")


def write_connection(home: Path, connection: dict[str, str | bool]) -> None:
    """Flower's own file about SuperLinks."""
    flower = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
    (home / "config.toml").write_text(tomli_w.dumps(flower))


def kit_server(kit: Path, name: str) -> str:
    """The SuperLink's HOST:PORT in a site's kit, which must be this site's own."""
    try:
        values = tomllib.loads((kit / KIT).read_text(encoding="utf-8"))
        owner, address = str(values["name"]), str(values["server"])
    except (OSError, ValueError, KeyError):
        raise ConfigError(f"{kit} is no kit of a site (no readable {KIT}); ask for it again") from None
    if owner != name:
        raise ConfigError(f"{kit} is the kit of {owner!r}, and this site is {name!r}; use its own kit")
    return address


def node_command(site: Path) -> Command:
    """Our own node, the site itself, from the site's file."""
    return ["python", "-m", "galafed.flower.node", site]


def supernode_command(site: Path, kit: Path, address: str, port: int) -> Command:
    """Flower's SuperNode for a site's file; `port`, on the site's own machine, is where its processes meet."""
    trust = ("--root-certificates", kit / "ca.crt", "--auth-supernode-private-key", kit / "node.key")
    own = ("--node-config", f'site="{site}"', "--host", "127.0.0.1", "--port", port)
    return ["flower-supernode", "--superlink", address, *trust, *own]
