"""Which site a node is. A real node says so itself, with its own file; a simulated one plays the domain it is told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from galafed.flower.folder import identity_in, kit_server
from galafed.flower.resident import private_folder, socket_of
from galafed.flower.worker import Handler
from galafed.sites.parcel import answered

if TYPE_CHECKING:
    from flwr.app import Context

    from galafed.sites.settings import SiteSettings


def place_of(told: str, context: Context) -> tuple[str, str]:
    """The node whose worker is to be asked, and the site there, as `site_of` reads it; `told` is ROLE:NAME."""
    node = context.node_config
    if file := node.get("site"):
        path = Path(str(file)).absolute()
        return str(path), json.dumps({"file": str(path)})
    if "partition-id" not in node:
        raise ValueError(
            "this node does not say which site it is: start it with --node-config 'site=\"/path/of/its/site.toml\"'"
        )
    workspace, workers = _simulation(context)
    worker = int(node["partition-id"]) % workers
    role, _, name = told.partition(":")
    kits = context.run_config.get("kits")
    kit = f"{kits}/{name}" if kits else ""
    told_of = {"name": name, "role": role, "folder": f"{workspace}/{name}", "kit": kit}
    return f"{workspace}/{worker}", json.dumps(told_of)


def _simulation(context: Context) -> tuple[str, int]:
    """Where simulated sites keep their files, and how many workers they share: as many as Flower works on at a time."""
    workspace = context.run_config.get("workspace") or private_folder() / f"simulation-{context.run_id}"
    return str(workspace), max(1, int(context.run_config.get("workers", 1)))


def clear_simulation(context: Context) -> None:
    """Remove what the simulated sites of a finished run kept where nobody named a folder for it."""
    workspace, workers = _simulation(context)
    if not context.run_config.get("workspace"):
        shutil.rmtree(workspace, ignore_errors=True)
    for worker in range(workers):
        shutil.rmtree(socket_of(f"{workspace}/{worker}").parent, ignore_errors=True)


def site_of(text: str) -> Handler:
    """The site that `place_of` named, for parcels."""
    from galafed.sites.policy import EVERYTHING
    from galafed.sites.settings import SiteSettings, read_settings, state_folder

    told = json.loads(text)
    if "file" in told:
        file = Path(told["file"])
        return parcels_for(read_settings(file), state_folder(file))
    # Simulated: no building is left.
    settings = SiteSettings(name=told["name"], role=told["role"], kit=told["kit"], allow=EVERYTHING)
    return parcels_for(settings, Path(told["folder"]))


def parcels_for(settings: SiteSettings, folder: Path) -> Handler:
    """What answers the parcels of a site with this state folder."""
    from galafed.sites.site import Site

    return carried(Site(settings, folder).handle, settings.kit, settings.name)


def carried(handle: Handler, kit: str, name: str) -> Handler:
    """What answers parcels with what answers requests; large payloads take the line that a site's kit is for."""
    from galafed.sites.errand import Errand

    errand = None
    if kit:
        host = kit_server(Path(kit), name).rpartition(":")[0]
        errand = Errand(identity_in(Path(kit), "client"), host)
    return lambda message: answered(message, handle, errand)
