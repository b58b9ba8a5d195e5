"""Trackers, each against its real library; and what happens to a run when one of them fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from galafed.config import resolve
from galafed.runs.records import metrics
from galafed.runs.runner import start
from galafed.sinks.base import Tracked, numbers, settings, sinks
from in_process import gala

pytestmark = pytest.mark.filterwarnings("ignore")  # of the trackers' libraries about their own future

MODULES = {"tensorboard": "tensorboard", "mlflow": "mlflow", "wandb": "wandb"}
INSTALLED = [name for name, module in MODULES.items() if find_spec(module)]


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run written to every tracker that is installed, interrupted by nobody, in a process of its own."""
    place = tmp_path_factory.mktemp("tracked")
    flags = [word for name in INSTALLED for word in ("--track", name)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB", "MLFLOW"))}
    done = subprocess.run(
        [sys.executable, "-m", "galafed", "run", "toy", "--out", "run", "--set", 'sources=["dark"]', *flags],
        cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stdout, done.stdout
    return place


def expected(place: Path) -> list[dict[str, float]]:
    """What every tracker should have: the numbers of every round."""
    return [numbers(line) for line in metrics(place / "run")]


def test_every_tracker_is_tried() -> None:
    assert set(MODULES) == set(sinks.names())


def test_tensorboard_reads_what_was_written(tracked: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tracked / "run" / "tensorboard"))
    events.Reload()
    lines = expected(tracked)
    assert set(events.Tags()["scalars"]) == set(lines[0])
    for name in lines[0]:
        found = events.Scalars(name)
        assert [event.step for event in found] == [1, 2, 3]
        assert [event.value for event in found] == pytest.approx([line[name] for line in lines], rel=1e-5)


def test_mlflow_reads_what_was_written(tracked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow: Any = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = mlflow.MlflowClient(tracking_uri=(tracked / "mlruns").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("galafed").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["gala.tau"] == "1.0"
    assert run.data.params["benchmark"] == "toy"
    for name, values in ((n, [line[n] for line in expected(tracked)]) for n in expected(tracked)[0]):
        found = client.get_metric_history(run.info.run_id, name.replace("#", "_"))
        assert [(m.step, m.value) for m in found] == [(n, pytest.approx(v)) for n, v in enumerate(values, 1)]
    summary = json.loads((tracked / "run" / "summary.json").read_text())
    assert run.data.metrics["final/last"] == summary["accuracy"]["last"]
    assert run.data.tags["digest"] == summary["digest"]


def records_of(file: Path) -> Iterator[bytes]:
    """The records of an offline run: a LevelDB log after a header of 7 bytes, in blocks of 32 KiB."""
    content, at, begun = file.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if (left := 32768 - at % 32768) < 7:  # too little for another header
            at += left
            continue
        size, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        begun += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or the last part of one
            yield begun
            begun = b""


def test_what_was_written_offline_is_in_the_messages_of_wandb(tracked: Path) -> None:
    pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2

    (file,) = (tracked / "run" / "wandb").glob("offline-run-*/run-*.wandb")
    rounds: list[dict[str, float]] = []
    for data in records_of(file):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            rounds.append(items)
    assert [line["_step"] for line in rounds] == [1, 2, 3]
    for found, wanted in zip(rounds, expected(tracked), strict=True):
        assert {name: found[name] for name in wanted} == pytest.approx(wanted)


def test_a_run_that_goes_on_stays_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow: Any = pytest.importorskip("mlflow")
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    config = resolve({"benchmark": "toy", "sources": ["dark", "bright"], "threads": 1})

    class Power(Silent):
        def round_done(self, line: Any) -> None:
            if line["round"] == 2:
                raise KeyboardInterrupt

    for display in (Power(), Silent()):
        observer = Tracked(display, [sinks.get(name)() for name in ("tensorboard", "mlflow")])
        try:
            start(config, tmp_path / "run", observer)  # type: ignore[arg-type]
        except KeyboardInterrupt:
            pass
        finally:
            observer.close()
    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("galafed").experiment_id])
    assert [m.step for m in client.get_metric_history(run.info.run_id, "loss")] == [1, 3]
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("loss")] == [1, 3]


class Silent:
    """A display that remembers notices."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def started(self, *_: Any) -> None: ...

    def phase(self, *_: Any) -> None: ...

    def round_done(self, line: Any) -> None: ...

    def finished(self, *_: Any) -> None: ...

    def notice(self, text: str) -> None:
        self.notices.append(text)


@pytest.mark.parametrize("moment", ["started", "round_done", "finished", "close"])
def test_a_tracker_that_fails_does_not_disturb_the_run(moment: str, tmp_path: Path) -> None:
    told: list[str] = []

    class Good:
        name = "good"

        def __getattr__(self, what: str) -> Any:
            return lambda *_: told.append(what)

    class Bad(Good):
        name = "bad"

        def __getattr__(self, what: str) -> Any:
            def fail(*_: Any) -> None:
                if what == moment:
                    raise RuntimeError("no network")

            return fail

    display = Silent()
    observer = Tracked(display, [Bad(), Good()])  # type: ignore[list-item]
    config = resolve({"benchmark": "toy", "rounds": 2, "sources": ["dark", "bright"], "threads": 1})
    plain = start(config, tmp_path / "plain")
    result = start(config, tmp_path / "run", observer)  # type: ignore[arg-type]
    observer.close()
    assert result.summary["digest"] == plain.summary["digest"]
    assert display.notices == ["the tracker bad failed and is left out: no network"]
    assert told == ["started", "round_done", "round_done", "finished", "close"]


def test_an_unknown_tracker_and_a_missing_extra_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = gala(capsys, "run", "toy", "--track", "tensorbord")
    assert (answer.code, "Did you mean 'tensorboard'?" in answer.err) == (2, True)
    monkeypatch.setitem(sys.modules, "wandb", None)
    answer = gala(capsys, "run", "toy", "--track", "wandb")
    assert (answer.code, "pip install 'galafed[wandb]'" in answer.err) == (2, True)
    assert list(tmp_path.glob("runs/*")) == []


def test_settings_are_flat() -> None:
    found = settings(resolve({"benchmark": "toy"}))
    assert found["training.lr"] == 0.02
    assert found["gala.tau"] == 1.0
    assert not any(isinstance(value, dict) for value in found.values())
