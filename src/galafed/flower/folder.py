"""The folder of a Flower federation: the server's keys and settings, and a kit for each site to carry away."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tomli_w

from galafed.errors import ConfigError
from galafed.runs.files import new_folder

if TYPE_CHECKING:
    from galafed.sites.policy import Policy

SETTINGS = "flower.toml"
CONNECTION = "galafed"
"""The name of the SuperLink in Flower's own configuration file."""


@dataclass(frozen=True)
class FlowerFolder:
    """Where the SuperLink is, and who may connect to it."""

    path: Path
    host: str
    port: int
    sites: tuple[str, ...]

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

    def link_command(self) -> list[str | Path | int]:
        """The SuperLink: TLS, and no node whose key is not registered."""
        server = self.server
        certificates = ("--ssl-ca-certfile", server / "ca.crt", "--ssl-certfile", server / "server.crt")
        keys = ("--ssl-keyfile", server / "server.key", "--enable-supernode-auth", "--database", server / "link.db")
        return ["flower-superlink", *certificates, *keys, "--host", self.host, "--port", self.port]

    def node_command(self, site: str, state: Path) -> list[str | Path | int]:
        """Our own node: the site itself, which answers in its own process and keeps its files in `state`."""
        return ["python", "-m", "galafed.flower.node", self.address, self.kit(site) / "site.toml", state]

    def supernode_command(self, site: str, state: Path, port: int) -> list[str | Path | int]:
        """Flower's SuperNode; `port`, on the site's own machine, is where its processes meet."""
        kit = self.kit(site)
        trust = ("--root-certificates", kit / "ca.crt", "--auth-supernode-private-key", kit / "node.key")
        config = f'site="{kit / "site.toml"}" state="{state}"'
        own = ("--node-config", config, "--host", "127.0.0.1", "--port", port)
        return ["flower-supernode", "--superlink", self.address, *trust, *own]


def make_folder(
    path: Path,
    sites: Mapping[str, str],
    *,
    host: str = "127.0.0.1",
    port: int = 9092,
    allow: Policy | None = None,
) -> FlowerFolder:
    """Make keys, certificates and kits for named sites and their roles; `allow` is written into each site's file."""
    from galafed.flower.keys import make_certificates, make_node_key

    if path.exists():
        raise ConfigError(f"{path} exists already: name a new folder, or remove it")
    names = tuple(sorted(sites))
    with new_folder(path) as temporary:
        folder = FlowerFolder(temporary, host, port, names)
        os.chmod(temporary, 0o700)
        folder.home.mkdir(parents=True)
        make_certificates(folder.server, host)
        authority = (folder.server / "ca.crt").read_bytes()
        for name, role in sites.items():
            kit = folder.kit(name)
            kit.mkdir(parents=True)
            make_node_key(kit)
            (kit / "ca.crt").write_bytes(authority)
            limits = {"allow": asdict(allow)} if allow else {}
            (kit / "site.toml").write_text(tomli_w.dumps({"name": name, "role": role, **limits}))
        connection = {"address": folder.address, "root-certificates": str(path.resolve() / "server" / "ca.crt")}
        flower = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
        (folder.home / "config.toml").write_text(tomli_w.dumps(flower))
        (temporary / SETTINGS).write_text(tomli_w.dumps({"host": host, "port": port, "sites": list(names)}))
    return read_folder(path)


def read_folder(path: Path) -> FlowerFolder:
    """The federation in a folder."""
    try:
        values = tomllib.loads((path / SETTINGS).read_text())
        return FlowerFolder(path.resolve(), str(values["host"]), int(values["port"]), tuple(values["sites"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{path} is no folder of a Flower federation: it lacks a readable {SETTINGS}") from None
