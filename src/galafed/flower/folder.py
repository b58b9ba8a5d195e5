"""The folder of a federation on Flower: the SuperLink's keys and settings, and a kit for each site to carry away."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from galafed.errors import ConfigError
from galafed.runs.files import new_folder
from galafed.sites.settings import NAME

SETTINGS = "federation.toml"
KIT = "kit.toml"
CONNECTION = "galafed"
"""The name of the SuperLink in Flower's own configuration file."""

Command = list[str | Path | int]


@dataclass(frozen=True)
class FlowerFolder:
    """Where the SuperLink is, and who may connect to it."""

    path: Path
    host: str
    port: int
    sites: tuple[str, ...]
    target: str

    @property
    def address(self) -> str:
        """The SuperLink as HOST:PORT."""
        return f"{self.host}:{self.port}"

    @property
    def server(self) -> Path:
        """What the server needs: its key is here."""
        return self.path / "server"

    @property
    def home(self) -> Path:
        """Flower's own folder for the server's commands."""
        return self.server / "home"

    def kit(self, site: str) -> Path:
        """What a site needs, and nobody else should have."""
        return self.path / "sites" / site

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
        if not re.fullmatch(NAME, name):
            raise ConfigError(f"a site cannot be called {name!r}: letters, digits, dots, dashes and underscores")
    if len(set(names)) < len(names):
        raise ConfigError(f"a site is named twice in {', '.join(names)}; the target is one of its own")
    if path.exists():
        raise ConfigError(f"{path} exists already: name a new folder, or remove it")
    with new_folder(path) as temporary:
        folder = FlowerFolder(temporary, host, port, names, target)
        os.chmod(temporary, 0o700)
        folder.home.mkdir(parents=True)
        make_certificates(folder.server, host)
        authority = (folder.server / "ca.crt").read_bytes()
        for name in names:
            kit = folder.kit(name)
            kit.mkdir(parents=True, mode=0o700)
            make_node_key(kit)
            (kit / "ca.crt").write_bytes(authority)
            (kit / KIT).write_text(tomli_w.dumps({"engine": "flower", "name": name, "server": folder.address}))
        write_connection(folder.home, {"address": folder.address, "root-certificates": str(path / "server" / "ca.crt")})
        settings = {"engine": "flower", "host": host, "port": port, "sites": list(names), "target": target}
        (temporary / SETTINGS).write_text(tomli_w.dumps(settings))
    return read_federation(path)


def write_connection(home: Path, connection: dict[str, str | bool]) -> None:
    """Flower's own file about SuperLinks."""
    flower = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
    (home / "config.toml").write_text(tomli_w.dumps(flower))


def read_federation(path: Path) -> FlowerFolder:
    """The federation in a folder."""
    try:
        values = tomllib.loads((path / SETTINGS).read_text(encoding="utf-8"))
        sites, target = tuple(values["sites"]), str(values["target"])
        made = FlowerFolder(path.resolve(), str(values["host"]), int(values["port"]), sites, target)
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{path} is no folder of a federation (no readable {SETTINGS}); 'gala federation init' makes one"
        ) from None
    if values.get("engine") != "flower":
        raise ConfigError(f"{path} is a federation of the engine {values.get('engine')!r}: run it with that one")
    return made


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
