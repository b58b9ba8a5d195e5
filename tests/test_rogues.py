"""Sites that are not honest, as real processes over real TLS: the run goes on, and each failure is named."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

import pytest

from flare_harness import Deployment, resident, rogue
from galafed.benchmarks.mini import Mini
from rogue_site import drops
from stripes import write_stripes

TIMEOUT = 30
SETTINGS = {"threads": "1", "timeout": str(TIMEOUT), "rounds": "2", "training.epochs": "1"}
MEGABYTE = 2**20


class Memory:
    """The largest resident size, while it lasts, of the run's process and of FLARE's at the server, each, in bytes."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self.largest: dict[str, int] = {}

    def __enter__(self) -> Memory:
        self._watcher.start()
        return self

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            for name, pid in self._deployment.server_processes():
                with contextlib.suppress(OSError, IndexError):
                    self.largest[name] = max(self.largest.get(name, 0), resident(pid))

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._watcher.join()


def started(engine: str, folder: Path, faults: dict[str, str], sources: tuple[str, ...], target: str) -> Deployment:
    """A federation with some rogue sites, all of them started."""
    made = Deployment(folder, sources, target, engine=engine)
    for name in made.federation.sites:
        made.start(name, env=rogue(faults[name], TIMEOUT + 5) if name in faults else {})
    return made


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["nvflare", "flower"])
def test_a_site_of_each_kind_of_fault_in_one_run(engine: str, tmp_path: Path) -> None:
    target, *sources = (Mini.default_target, *(name for name in Mini.domains if name != Mini.default_target))
    faults = dict(zip(sources, ("nan", "shape", "late", "twice", "huge"), strict=False))
    deployment = started(engine, tmp_path, faults, tuple(sources), target)
    try:
        with Memory(deployment) as memory:
            began = time.monotonic()
            deployment.run("mini", settings=SETTINGS)
            assert deployment.ends(400) == 0, deployment.said()
            took = time.monotonic() - began
    finally:
        deployment.close()
    who = {fault: name for name, fault in faults.items()}
    lines = deployment.metrics()
    assert len(lines) == 2
    for line in lines:
        told = {failure["client"]: failure for failure in line["failures"] if failure["task"] == "train"}
        assert told.keys() == {who[fault] for fault in ("nan", "shape", "late", "huge")}
        words = {
            fault: f"{told[who[fault]]['kind']}: {told[who[fault]]['reason']}" for fault in who if who[fault] in told
        }
        assert "NaN or infinity" in words["nan"]
        assert "has shape" in words["shape"]
        assert words["late"].startswith("late: no answer came")
        assert "are accepted" in words["huge"]
        assert words["huge"].startswith("invalid")
        honest = set(sources) - told.keys()
        assert set(line["relevance"]) == honest
        assert who["twice"] in honest
    assert took < 100 + 2 * TIMEOUT * 1.1, "what is late costs its time-out, and nothing else"
    assert max(memory.largest.values()) < 800 * MEGABYTE, memory.largest


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "kinds"), [("flood", {"late", "lost", "invalid"}), ("lie", {"lost", "invalid"})])
@pytest.mark.parametrize("engine", ["nvflare", "flower"])
def test_a_gigabyte_by_other_ways_is_refused_before_there_is_room_for_it(
    engine: str, fault: str, kinds: set[str], tmp_path: Path
) -> None:
    """Through the engine's own messages, or on the line of large payloads after the announcement of a small one.

    A SuperLink takes in whatever a registered node sends; nobody fetches it from there.
    """
    deployment = started(engine, tmp_path, {"dark": fault}, ("bright", "dark", "faint"), "noisy")
    settings = SETTINGS | {"sources": '["bright","dark","faint"]', "timeout": "20"}
    try:
        with Memory(deployment) as memory:
            deployment.run("toy", settings=settings)
            assert deployment.ends(280) == 0, deployment.said()
    finally:
        deployment.close()
    lines = deployment.metrics()
    for line in lines:
        failed = {failure["client"]: failure["kind"] for failure in line["failures"]}
        assert failed.keys() == {"dark"}, line["failures"]
        assert failed["dark"] in kinds
        assert set(line["relevance"]) == {"bright", "faint"}
    ours = {name: most for name, most in memory.largest.items() if name != "superlink" or fault != "flood"}
    assert {"run", "job"} <= ours.keys()
    assert max(ours.values()) < 800 * MEGABYTE, memory.largest


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_seventeen_sites_of_which_thirty_per_cent_drop_at_random_for_thirty_rounds(tmp_path: Path) -> None:
    rounds, patience = 30, 4.0
    sources = [f"site-{number:02d}" for number in range(17)]
    settings = write_stripes(tmp_path / "images", [*sources, "target"])
    deployment = Deployment(tmp_path, sources, "target", images=tmp_path / "images")
    silent = rogue("drop", patience + 1)
    try:
        for name in sources:
            deployment.start(name, env=silent)
        deployment.start("target", env=rogue("honest"))
        _wait_until_calm()
        deployment.run("sites", settings=settings | {"rounds": str(rounds), "timeout": str(patience)})
        deployment.wait_for("target", "centroids", 1, seconds=300)
        began = time.monotonic()
        assert deployment.ends(1200) == 0, deployment.said()
        took = time.monotonic() - began
    finally:
        deployment.close()
    lines = deployment.metrics()
    assert len(lines) == rounds
    tasks = ("centroids", "train", "tune")
    phases = rounds * (len(tasks) + 2)  # and align and evaluate, at the target
    assert took < patience * phases * 1.1
    named = 0
    for line in lines:
        told = {(failure["client"], failure["task"]) for failure in line["failures"]}
        number = line["round"] - 1
        for task in tasks:
            missing = {name for name in sources if drops(name, number, task)}
            failed = {client for client, of in told if of == task}
            asked = set(sources) - {client for client, of in told if tasks.index(of) < tasks.index(task)}
            assert missing & asked <= failed, "who kept silent is named"
            named += len(missing & asked)
    assert named > 5 * rounds


def _wait_until_calm(seconds: float = 120) -> None:
    """Thirty-six processes that all start at once need a while on few cores."""
    deadline = time.monotonic() + seconds
    while os.getloadavg()[0] > 4 and time.monotonic() < deadline:
        time.sleep(1)
    time.sleep(20)
