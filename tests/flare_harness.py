"""Real parties for tests: a server, sites with certificates, the command `gala`: processes that may be killed."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from galafed.cli_federation import MAKERS
from galafed.sites.federation_folder import FederationFolder
from galafed.sites.processes import free_port
from galafed.sites.site_file import write_site_file

GALA = str(Path(sys.executable).with_name("gala"))
ENV = os.environ | {"OMP_WAIT_POLICY": "passive"}

ROGUE = Path(__file__).parent / "rogue"


def rogue(fault: str, seconds: float = 0.0) -> dict[str, str]:
    """The environment of a site with a fault; a late one is so many seconds late. See rogue_site.py."""
    path = os.pathsep.join((str(ROGUE), str(ROGUE.parent), os.environ.get("PYTHONPATH", "")))
    return {"PYTHONPATH": path, "ROGUE": fault, "ROGUE_SECONDS": str(seconds)}


class Deployment:
    """A federation of an engine in a folder, with its sites as processes.

    `images` holds a folder for each site that has its own; `places` are commands that start a party somewhere else.
    """

    def __init__(
        self,
        folder: Path,
        sources: Sequence[str],
        target: str,
        *,
        engine: str = "nvflare",
        host: str = "127.0.0.1",
        images: Path | None = None,
        places: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.folder = folder
        self.engine = engine
        make_federation = importlib.import_module(MAKERS[engine]).make_federation
        self.federation: FederationFolder = make_federation(
            folder / "fed", sources, target, host=host, port=free_port()
        )
        self.running: dict[str, subprocess.Popen[str]] = {}
        self._places = places or {}
        for name in self.federation.sites:
            role = "target" if name == target else "source"
            data = str(images / name) if images else ""
            write_site_file(folder / f"{name}.toml", name=name, role=role, kit=self.federation.kit(name), data=data)

    def start(self, *names: str, env: dict[str, str] | None = None) -> None:
        """`gala site start`, for all or some."""
        for name in names or self.federation.sites:
            self.running[name] = self._gala("site", "start", f"{name}.toml", who=name, env=env)

    def run(self, *arguments: str, out: str = "run", settings: dict[str, Any] | None = None) -> subprocess.Popen[str]:
        """`gala run`, in the background."""
        more = [f"--set={key}={value}" for key, value in (settings or {}).items()]
        common = ("--engine", self.engine, "--federation", str(self.federation.path), "--device", "cpu")
        self.running["gala"] = self._gala("run", *arguments, *common, "--out", out, *more)
        return self.running["gala"]

    def resume(self, out: str = "run") -> subprocess.Popen[str]:
        """`gala resume`, in the background."""
        self.running["gala"] = self._gala("resume", out)
        return self.running["gala"]

    def _gala(self, *arguments: str, who: str = "gala", env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        with (self.folder / f"{who}.log").open("a") as file:
            return subprocess.Popen(
                [*self._places.get(who, ()), GALA, *arguments],
                cwd=self.folder,
                stdout=file,
                stderr=file,
                text=True,
                env=ENV | (env or {}),
                start_new_session=True,
            )

    def wait_for(
        self, site: str, task: str, round_number: int = 1, *, direction: str = "in", seconds: float = 90
    ) -> None:
        """Wait until a site has begun, or done, a task, as its own ledger tells."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for path in (self.folder / f"{site}.state" / "ledger").glob("*.jsonl"):
                for text in path.read_text().splitlines():
                    with contextlib.suppress(ValueError):
                        line = json.loads(text)
                        if (line["task"], line["round"], line["direction"]) == (task, round_number, direction):
                            return
            gala = self.running.get("gala")
            assert gala is None or gala.poll() is None, self.said()
            time.sleep(0.01)
        raise AssertionError(f"{site} did not come to {task} of round {round_number}: {self.said()}")

    def said(self) -> str:
        """What the command has printed."""
        return (self.folder / "gala.log").read_text()[-3000:]

    def metrics(self, out: str = "run") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / out / "metrics.jsonl").read_text().splitlines()]

    def digest(self, out: str = "run") -> str:
        return (self.folder / out / "done").read_text().strip()

    def ends(self, seconds: float = 150) -> int:
        """The exit code of the run."""
        return self.running["gala"].wait(seconds)

    def server_processes(self) -> Iterator[tuple[str, int]]:
        """The processes at the server by what they are: the run's, the engine's, and the engine's for our job."""
        if "gala" in self.running:
            yield "run", self.running["gala"].pid
        for pid, line in _commands():
            if str(self.federation.server) in line:
                words = {"runner_process": "job", "serverapp": "job", "superlink": "superlink"}
                yield next((kind for word, kind in words.items() if word in line), "server"), pid

    def has_worker(self, site: str) -> bool:
        """Whether a process works for a job at a site."""
        kit = str(self.federation.kit(site))
        return any("worker_process" in line and kit in line for _, line in _commands())

    def kill_worker(self, site: str) -> None:
        """kill -9 the process that works for a job at a site, and nothing else of the site."""
        self._kill("worker_process", self.federation.kit(site))

    def kill_client(self, site: str) -> None:
        """kill -9 the site's process that holds the connection."""
        self._kill("client_train", self.federation.kit(site))

    def kill_server(self) -> None:
        """kill -9 the server."""
        self._kill("server_train", self.federation.server)

    def kill_site(self, site: str) -> None:
        """kill -9 `gala site start` and everything it started, at once."""
        process = self.running.pop(site)
        for pid in _family(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def _kill(self, module: str, kit: Path) -> None:
        found = [pid for pid, line in _commands() if module in line and str(kit) in line]
        assert found, f"no {module} of {kit} is running"
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """End everything."""
        for name in sorted(self.running, key=lambda name: name != "gala"):
            process = self.running[name]
            if process.poll() is None:
                process.terminate()
        for process in self.running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            if process.poll() is None:
                for pid in _family(process.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                process.wait()


def write_settings(path: Path, **values: Any) -> None:
    path.write_text(tomli_w.dumps(values))


def resident(pid: int) -> int:
    """Bytes of a process that are in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _commands() -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def _family(root: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found
