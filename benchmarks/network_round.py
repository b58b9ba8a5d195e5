"""A whole round of GALA through an engine, for `network.py`: seconds, bytes, start, and memory at the server.

Five sites and a target with twelve images each, the paper's digit network (103 MB). Memory is the largest resident size
of every process at the server's side, above what the same run takes with a small network, in models: what is left is
what the engine and the algorithm keep of models.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GALA = Path(sys.executable).with_name("gala")
ROUNDS = 4
"""The first one starts things, and is left out of the median."""
MODEL = 102_801_832
"""Bytes of the digit network for images of 32 pixels a side."""
FLAGS: dict[str, list[str]] = {
    "serial": ["--engine", "serial"],
    "nvflare": ["--engine", "nvflare"],
    "flower-simulation": ["--engine", "flower"],
    "flower-loopback": ["--engine", "flower", "--federation", "loopback"],
}
AT_SITES = (
    "client_train",
    "worker_process",
    "galafed.flower.node",
    "galafed.flower.worker",
    "ray::",
    "/ray/",
    "raylet",
)
"""Words in the commands of processes that belong to sites, or to the runtime that plays them."""


def measure_round(engine: str) -> dict[str, Any]:
    """Figures of whole rounds."""
    large, small = _run(engine, "digit_cnn"), _run(engine, "small_cnn")
    memory = {
        name: round((size - small["memory"].get(name, 0)) / MODEL, 2) for name, size in sorted(large["memory"].items())
    }
    return {
        "engine": engine,
        "round": large["round"],
        "rounds": large["rounds"],
        "small_round": small["round"],
        "start": large["start"],
        "bytes": large["bytes"],
        "digest": large["digest"],
        "memory_models": memory,
        "memory_models_together": round(sum(memory.values()), 2),
    }


def _run(engine: str, network: str) -> dict[str, Any]:
    """One run of some rounds, watched."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        settings = {"network": network, "threads": 1, "training.epochs": 1, "training.batch_size": 12, "timeout": 600}
        command = [GALA, "run", "few-stripes", *FLAGS[engine], "--rounds", str(ROUNDS), "--device", "cpu"]
        command += ["--out", str(out), *(f"--set={key}={value}" for key, value in settings.items())]
        before = time.time()
        with (Path(folder) / "said").open("w+") as said:
            process = subprocess.Popen(  # noqa: S603 - our own command
                command, env=_environment(Path(folder)), stdout=said, stderr=said, cwd=folder
            )
            memory = _watch(process)
            if process.returncode:
                said.seek(0)
                raise SystemExit(f"{engine} with {network} ended with {process.returncode}:\n{said.read()[-2000:]}")
        lines = [json.loads(text) for text in (out / "metrics.jsonl").read_text().splitlines()]
        summary = json.loads((out / "summary.json").read_text())
        ledgers = [path.read_text().splitlines()[0] for path in (out / "ledger").iterdir()]
        if failures := [failure for line in lines for failure in line["failures"]]:
            raise SystemExit(f"{engine} with {network}: {failures}")
        return {
            "start": min(json.loads(line)["time"] for line in ledgers) - before,
            "rounds": [line["seconds"] for line in lines],
            "round": statistics.median(line["seconds"] for line in lines[1:]),
            "bytes": summary["bytes"],
            "digest": summary["digest"],
            "memory": memory,
        }


def _environment(folder: Path) -> dict[str, str]:
    """Where every process finds our benchmark: as a plug-in."""
    facts = folder / "plugin" / "galafed_network-0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: galafed-network\nVersion: 0\n")
    (facts / "entry_points.txt").write_text("[galafed.benchmarks]\nfew-stripes = network_plugin\n")
    path = os.pathsep.join((str(facts.parent), str(HERE), os.environ.get("PYTHONPATH", "")))
    return os.environ | {"PYTHONPATH": path, "OMP_WAIT_POLICY": "passive"}


def _watch(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """The largest resident size of the run's process and of what it started at the server's side, by kind."""
    largest: dict[str, int] = {}
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.03)
        for pid, command in _family(process.pid):
            forked = pid != process.pid and " run few-stripes " in command  # about to become something else
            if forked or any(word in command for word in AT_SITES):
                continue
            with contextlib.suppress(OSError, IndexError, ValueError):
                status = Path(f"/proc/{pid}/status").read_text()
                peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
                name = "run" if pid == process.pid else _kind(command)
                largest[name] = max(largest.get(name, 0), peak)
    return largest


def _kind(command: str) -> str:
    """A short name of a process of FLARE or Flower."""
    words = ("server_train", "runner_process", "keeper", "superlink", "superexec", "serverapp", "simulation")
    return next((word for word in words if word in command), "other")


def _family(root: int) -> Iterator[tuple[int, str]]:
    """A process and all that descend from it, with their commands."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
        with contextlib.suppress(OSError):
            yield pid, Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
