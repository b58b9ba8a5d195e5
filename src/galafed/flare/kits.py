"""The folder of a federation on NVIDIA FLARE: an authority, and a kit of keys and settings for each party."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from galafed.errors import ConfigError
from galafed.runs.files import new_folder
from galafed.sites.federation_folder import FederationFolder, check_new
from galafed.sites.identity import SERVER, Identity
from galafed.sites.processes import BIN

ADMIN = "admin@galafed.org"
ORGANISATION = "galafed"
NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
"""What FLARE accepts as the name of a site."""
MESSAGES = {"streaming_max_blob_size": 2**24, "allow_adhoc_conns": False}
"""Large payloads take a line of their own, so a large message is nobody's who means well: it is refused before there is
room for it. Every connection of FLARE's goes from a site to the server's one port."""
ALLOWED = ("nvflare.collab.runtime.", "galafed.flare.")
"""Classes that a job may name: FLARE's own bridge, and ours, which are installed and not sent along."""


class FlareFolder(FederationFolder):
    """A federation on FLARE; its parties' kits are as FLARE makes them."""

    engine = "nvflare"

    @property
    def admin(self) -> Path:
        """The kit of whoever starts runs."""
        return self.path / "admin"


def make_federation(
    path: Path, sources: Sequence[str], target: str, *, host: str = "127.0.0.1", port: int = 8002
) -> FlareFolder:
    """Make the authority, keys, certificates and kits of a server and its named sites."""
    path = path.absolute()
    names = (*sources, target)
    for name in names:
        if not re.fullmatch(NAME, name) or name == SERVER:
            raise ConfigError(f"a site cannot be called {name!r}: letters, digits, dashes and underscores, at most 63")
    if not sources:
        raise ConfigError("name at least one site besides the target")
    check_new(path, names)
    with new_folder(path) as temporary:
        os.chmod(temporary, 0o700)
        made = _provision(temporary / "authority", names, host, port)
        (temporary / "sites").mkdir()
        shutil.move(made / SERVER, temporary / "server")
        shutil.move(made / ADMIN, temporary / "admin")
        for name in names:
            shutil.move(made / name, temporary / "sites" / name)
            _settle(temporary / "sites" / name, {})
        shutil.rmtree(made)
        _settle(temporary / "server", {"path": str(path / "server")})
        FlareFolder(temporary, host, port, names, target).write()
        _tighten(temporary)
    return FlareFolder.read(path)


def kit_server(kit: Path, name: str) -> str:
    """The server's HOST:PORT in a site's kit, which must be this site's own."""
    try:
        settings = json.loads((kit / "startup" / "fed_client.json").read_text(encoding="utf-8"))
        owner, address = str(settings["client"]["fqsn"]), str(settings["servers"][0]["service"]["target"])
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        raise ConfigError(
            f"{kit} is no kit of a site (no readable startup/fed_client.json); ask for it again"
        ) from None
    if owner != name:
        raise ConfigError(f"{kit} is the kit of {owner!r}, and this site is {name!r}; use its own kit")
    return address


def identity_in(kit: Path, side: Literal["server", "client"]) -> Identity:
    """Who a party with this kit is."""
    startup = kit / "startup"
    return Identity(startup / "rootCA.pem", startup / f"{side}.crt", startup / f"{side}.key")


def _provision(workspace: Path, names: Sequence[str], host: str, port: int) -> Path:
    """FLARE's own provisioning; returns the folder with a kit for each party."""
    server = {"name": SERVER, "type": "server", "org": ORGANISATION, "fed_learn_port": port, "default_host": host}
    server["host_names"] = [host]
    sites = [{"name": name, "type": "client", "org": ORGANISATION} for name in names]
    admin = {"name": ADMIN, "type": "admin", "org": ORGANISATION, "role": "project_admin"}
    builders = "nvflare.lighter.impl."
    project = {
        "api_version": 3,
        "name": ORGANISATION,
        "participants": [server, *sites, admin],
        "builders": [
            {"path": f"{builders}workspace.WorkspaceBuilder", "args": {"template_file": ["master_template.yml"]}},
            {"path": f"{builders}static_file.StaticFileBuilder", "args": {"config_folder": "config", "scheme": "tcp"}},
            {"path": f"{builders}cert.CertBuilder"},
            {"path": f"{builders}signature.SignatureBuilder"},
        ],
    }
    workspace.mkdir(mode=0o700)
    (workspace / "project.yml").write_text(json.dumps(project))  # JSON is YAML
    done = subprocess.run(  # noqa: S603 - FLARE's own command
        [BIN / "nvflare", "provision", "-p", workspace / "project.yml", "-w", workspace, "--force"],
        capture_output=True,
        text=True,
        cwd=workspace,
        env=os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"},
    )
    made = workspace / ORGANISATION / "prod_00"
    if done.returncode or not made.is_dir():
        said = (done.stderr + done.stdout).strip().splitlines()[-3:]
        raise ConfigError(f"FLARE could not make the kits: {' '.join(said)}")
    return made


def _settle(kit: Path, server: Mapping[str, str]) -> None:
    """Let a kit run our installed classes and no code that comes with a job; keep all of its files in it."""
    default = json.loads((kit / "local" / "resources.json.default").read_text(encoding="utf-8"))
    resources: dict[str, Any] = default | {"class_allow_list": list(ALLOWED), "allow_log_streaming": False}
    kept = [part for part in resources["components"] if part["id"] not in ("site_log_streamer", "log_receiver")]
    resources["components"] = kept
    if server:
        storage = Path(server["path"])
        resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(storage / "snapshots")
        for part in kept:
            if part["id"] == "job_manager":
                part["args"]["uri_root"] = str(storage / "jobs")
    (kit / "local" / "resources.json").write_text(json.dumps(resources, indent=1))
    (kit / "local" / "comm_config.json").write_text(json.dumps(MESSAGES, indent=1))
    shutil.copy(kit / "local" / "authorization.json.default", kit / "local" / "authorization.json")
    # FLARE writes a log of its own in the kit; what goes to the console is kept by whoever starts it.
    shutil.copy(kit / "local" / "log_config.json.default", kit / "local" / "log_config.json")


def _tighten(folder: Path) -> None:
    """Keys, and the folders they lie in, are their owner's alone."""
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() or path.suffix == ".sh" else 0o600)
