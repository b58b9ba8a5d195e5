"""The job that FLARE is given: names of installed classes, the sites, and where to connect to. No code is in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SYNC = 120
"""Seconds in which the sites' workers must have started."""


def write_job(folder: Path, sites: Sequence[str], relay: Path) -> Path:
    """Write the job's files and return their folder."""
    config = folder / "galafed" / "app" / "config"
    config.mkdir(parents=True)
    props = {"relay": str(relay)}
    controller = {"server_obj_id": "_server", "collab_obj_ids": [], "props": props, "sync_task_timeout": SYNC}
    executor = {"client_obj_id": "_client", "collab_obj_ids": [], "props": {}}
    server = {
        "workflows": [_part("controller", "nvflare.collab.runtime.controller.CollabController", controller)],
        "components": [_part("_server", "galafed.flare.server.Messenger", {})],
    }
    client = {
        "executors": [
            {
                "tasks": ["*"],
                "executor": {"path": "nvflare.collab.runtime.executor.CollabExecutor", "args": executor},
            }
        ],
        "components": [_part("_client", "galafed.flare.client.Party", {})],
    }
    for name, values in (("server", server), ("client", client)):
        whole = {"format_version": 2, **values, "task_data_filters": [], "task_result_filters": []}
        (config / f"config_fed_{name}.json").write_text(json.dumps(whole))
    meta = {
        "name": "galafed",
        "resource_spec": {},
        "min_clients": len(sites),
        "deploy_map": {"app": ["server", *sites]},
    }
    (folder / "galafed" / "meta.json").write_text(json.dumps(meta))
    return folder / "galafed"


def _part(name: str, path: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "path": path, "args": arguments}
