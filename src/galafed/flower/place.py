"""Which site a node is. A real node says so itself, with its own file; a simulated one plays the domain it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from galafed.flower.resident import private_folder
from galafed.flower.worker import Handler

if TYPE_CHECKING:
    from flwr.app import Context


def place_of(told: str, context: Context) -> tuple[str, str]:
    """The node whose worker is to be asked, and the site there, as `site_of` reads it; `told` is ROLE:NAME."""
    node, run = context.node_config, context.run_config
    if file := node.get("site"):
        return str(Path(str(file)).resolve()), json.dumps({"file": str(file)})
    if "partition-id" not in node:
        raise ValueError(
            "this node does not say which site it is: start it with --node-config 'site=\"/path/of/its/site.toml\"'"
        )
    workspace = str(run.get("workspace") or private_folder() / f"simulation-{context.run_id}")
    # The simulated sites share as many workers as Flower works on nodes at a time.
    worker = int(node["partition-id"]) % max(1, int(run.get("workers", 1)))
    role, _, name = told.partition(":")
    return f"{workspace}/{worker}", json.dumps({"name": name, "role": role, "folder": f"{workspace}/{name}"})


def site_of(text: str) -> Handler:
    """The site that `place_of` named."""
    from galafed.sites.settings import SiteSettings, read_settings
    from galafed.sites.site import Site

    told = json.loads(text)
    if "file" in told:
        return Site(read_settings(Path(told["file"])), Path(told["file"]).parent).handle
    return Site(SiteSettings(name=told["name"], role=told["role"]), Path(told["folder"])).handle
