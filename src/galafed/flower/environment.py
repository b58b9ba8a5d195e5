"""What Flower's programs see of the world."""

from __future__ import annotations

import os
from pathlib import Path

from galafed.sites.processes import BIN

ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_WAIT_POLICY": "passive",
}
"""Nothing is reported to anybody, nothing is installed on the way, and a waiting task is seen at once."""


def environment(home: Path) -> dict[str, str]:
    """What Flower's programs see: they find each other by name, and keep their files under `home`."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return os.environ | ENVIRONMENT | {"PATH": path, "FLWR_HOME": str(home)}
