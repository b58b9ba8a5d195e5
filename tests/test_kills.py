"""Sites killed at any moment and started again, over and over, while a run goes on. Minutes: make test-faults."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra galafed[flower] is not installed")

from flare_harness import Deployment, rogue
from galafed.flower.environment import environment
from galafed.flower.folder import FlowerFolder
from galafed.flower.register import connected, register
from galafed.sites.processes import Processes, answers
from stripes import write_stripes

PHASES = 5
"""Questions a round: centroids, train, tune, align, evaluate."""


class Killer:
    """Kills sites with signal 9 at random moments, while it lasts, and starts them again."""

    def __init__(self, deployment: Deployment, sites: list[str], every: tuple[float, float]) -> None:
        self.killed: list[str] = []
        self._deployment, self._sites, self._every = deployment, sites, every
        self._draw = np.random.default_rng(17)
        self._back: dict[str, float] = {}
        self._ended = threading.Event()
        self._hand = threading.Thread(target=self._go)

    def __enter__(self) -> Killer:
        self._hand.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._hand.join()

    def _go(self) -> None:
        deployment, draw = self._deployment, self._draw
        due = time.monotonic() + draw.uniform(*self._every)
        while not self._ended.wait(0.05):
            now = time.monotonic()
            for name in [name for name, when in self._back.items() if when <= now]:
                del self._back[name]
                deployment.start(name, env=rogue("honest"))
            if now < due:
                continue
            due = now + draw.uniform(*self._every)
            name = str(draw.choice([name for name in self._sites if name not in self._back]))
            deployment.kill_site(name)
            self._back[name] = now + draw.uniform(1, 8)
            self.killed.append(name)


def _gathered(deployment: Deployment, folder: FlowerFolder, logs: Path) -> Processes:
    """A SuperLink to which all sites are connected: twenty processes need a while on few cores."""
    link = Processes(logs)
    try:
        link.start("link", [*folder.link_command(), "--database", folder.server / "link.db"], environment(folder.home))
        deadline = time.monotonic() + 400
        while not answers(folder.host, folder.port):
            assert time.monotonic() < deadline, link.trouble()
            time.sleep(0.1)
        register(folder)
        deployment.start(env=rogue("honest"))
        while not connected(folder) >= set(folder.sites):
            assert time.monotonic() < deadline, connected(folder)
            time.sleep(1)
    except BaseException:
        link.close()
        raise
    return link


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_sites_killed_at_random_and_started_again(tmp_path: Path) -> None:
    """On Flower; on FLARE each kill ends the job, which few cores start again more slowly than sites are killed."""
    count, rounds, patience, every = 9, 12, 10.0, (3.0, 9.0)
    sources = [f"site-{number:02d}" for number in range(count)]
    settings = write_stripes(tmp_path / "images", [*sources, "target"])
    deployment = Deployment(tmp_path, sources, "target", engine="flower", images=tmp_path / "images")
    link: Processes | None = None
    try:
        assert isinstance(deployment.federation, FlowerFolder)
        link = _gathered(deployment, deployment.federation, tmp_path / "logs")
        deployment.run("sites", settings=settings | {"rounds": str(rounds), "timeout": str(patience)})
        deployment.wait_for("target", "centroids", 1, seconds=400)
        began = time.monotonic()
        with Killer(deployment, sources, every) as killer:
            code = deployment.ends(1200)
        took = time.monotonic() - began
    finally:
        deployment.close()
        if link is not None:
            link.close()
    assert code == 0, deployment.said()
    lines = deployment.metrics()
    assert len(lines) == rounds
    assert took < patience * PHASES * rounds * 1.1, f"{took:.0f} s with {len(killer.killed)} kills"
    assert len(killer.killed) > rounds / 3
    named = [failure for line in lines for failure in line["failures"]]
    for line in lines:
        failed = {failure["client"] for failure in line["failures"]}
        assert set(sources) - line["relevance"].keys() <= failed, "whoever did not take part is named"
    assert all(failure["kind"] in ("late", "lost", "absent") and failure["reason"] for failure in named), named
    assert named, "a kill in the middle of a question costs its answer"
