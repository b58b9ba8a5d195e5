"""Sites that answer as many bytes as they are told, on NVIDIA FLARE; used by `network.py`."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from network_sites import Play

from galafed.flare import client, job, runtime
from galafed.flare.transport import FlareRelay

HERE = Path(__file__).parent


class Party(client.Party):
    """A party whose site plays."""

    def _ready(self):  # type: ignore[no-untyped-def]
        with mock.patch.object(client, "Site", return_value=Play()):
            return super()._ready()


@contextmanager
def flare(names: list[str]) -> Iterator[tuple[FlareRelay, float]]:
    """A line to sites that play, and the seconds it took to start everything."""
    make, write = runtime.make_federation, job.write_job

    def with_us(path: Path, *rest, **more):  # type: ignore[no-untyped-def]
        made = make(path, *rest, **more)
        for kit in (made.server, *map(made.kit, made.sites)):
            file = kit / "local" / "resources.json"
            resources = json.loads(file.read_text())
            resources["class_allow_list"].append("network_flare.")
            file.write_text(json.dumps(resources))
        return made

    def ours(*rest):  # type: ignore[no-untyped-def]
        folder = write(*rest)
        file = folder / "app" / "config" / "config_fed_client.json"
        file.write_text(file.read_text().replace("galafed.flare.client.Party", "network_flare.Party"))
        return folder

    path = f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    with (
        tempfile.TemporaryDirectory(),
        mock.patch.object(runtime, "make_federation", with_us),
        mock.patch.object(job, "write_job", ours),
        mock.patch.dict(os.environ, {"PYTHONPATH": path}),
    ):
        relay = FlareRelay(lambda: runtime.Temporary(names[:-1], names[-1], print))
        started = time.perf_counter()
        relay.open()
        try:
            yield relay, time.perf_counter() - started
        finally:
            relay.close()
