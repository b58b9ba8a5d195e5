"""Faults, with real processes: killed, interrupted, out of disk, damaged, spoilt. A run always ends with the same bits.

Most trials run `gala` in a fork of one process that has imported everything, which spares each the start of Python;
some start the command itself. This file, run as a program, is that process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

GALA = str(Path(sys.executable).with_name("gala"))
COMMON = ["--set", "threads=1", "--set", "device=cpu"]
GALA_RUN = ["run", "toy", *COMMON, "--rounds", "8", "--set", 'sources=["bright", "dark"]']
FACT_RUN = [
    *["run", "toy", *COMMON, "--algorithm", "fact", "--set", 'sources=["bright", "dark"]'],
    *["--set", "training.persistent_momentum=true"],
]
"""FACT with momentum kept at the clients: its checkpoints hold every kind of file there is."""
TWO_ROUNDS = [*FACT_RUN, "--rounds", "2", "--set", "keep_checkpoints=1"]
FIVE_ROUNDS = [*FACT_RUN, "--rounds", "5", "--set", "keep_checkpoints=10"]


# ------------------------------------------------------------------- in the forked process: what may happen to a run


class Points:
    """Counts the calls that change the disk, and has something happen at one of them."""

    def __init__(self, at: int = -1, action: str = "kill", slow: float = 0.0, after: str = "") -> None:
        self.seen = 0
        self._at, self._action, self._slow, self._after = at, action, slow, after

    def install(self) -> None:
        """Wrap what changes the disk."""
        for name in ("fsync", "replace", "mkdir", "rmdir", "unlink"):
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        original = Path.open

        def opened(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
            file = original(path, mode, *rest, **more)
            return Writer(file, self) if set(mode) & set("wax+") else file

        Path.open = opened  # type: ignore[method-assign, assignment]

    def _wrapped(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **more: Any) -> Any:
            self.reach(name)
            result = original(*arguments, **more)
            if self._after and name == "replace" and Path(arguments[1]).name == self._after:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapper

    def reach(self, name: str) -> None:
        """One such call is about to be made."""
        if self._action == "full" and name not in ("write", "mkdir"):
            return
        self.seen += 1
        time.sleep(self._slow)
        if self._action == "full" and 0 <= self._at < self.seen:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.seen == self._at + 1:
            os.kill(os.getpid(), signal.SIGKILL)


class Writer:
    """A file that is written in two halves, so that a run can end between them."""

    def __init__(self, file: Any, points: Points) -> None:
        self._file, self._points = file, points

    def write(self, content: Any) -> None:
        half = len(content) // 2
        for name, part in (("write", content[:half]), ("write on", content[half:])):
            self._points.reach(name)
            self._file.write(part)
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def limit_size(size: int, after: str) -> None:
    """Allow no file longer than `size`, from the moment that a file or folder called `after` is there."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    if not after:
        limit()
        return
    original = os.replace

    def replace(source: Any, target: Any) -> None:
        original(source, target)
        if Path(target).name == after:
            limit()

    os.replace = replace  # type: ignore[assignment]


def spoil_replies(clients: list[str], kind: str, first_round: int = 0, tasks: tuple[str, ...] = ()) -> None:
    """Let clients send nonsense."""
    from galafed.engines.serial import Serial
    from galafed.messages import Reply

    original = Serial.dispatch

    def dispatch(self: Any, jobs: Any, *rest: Any) -> Any:
        job = jobs[0]
        answers = original(self, jobs, *rest)
        if job.round < first_round or (tasks and job.task.name not in tasks):
            return answers
        return [spoilt(a, kind) if isinstance(a, Reply) and a.client in clients and a.parts else a for a in answers]

    Serial.dispatch = dispatch  # type: ignore[method-assign]


def spoilt(reply: Any, kind: str) -> Any:
    """A reply with something wrong in it."""
    parts = {part: dict(state) for part, state in reply.parts.items()}
    part = min(parts)
    name = min(key for key, value in parts[part].items() if value.is_floating_point())
    value = parts[part][name].clone()
    metrics = dict(reply.metrics)
    if kind in ("nan", "inf", "-inf"):
        value.view(-1)[-1] = float(kind)
        parts[part][name] = value
    elif kind == "shape":
        parts[part][name] = value[None]
    elif kind == "key":
        del parts[part][name]
    elif kind == "unknown key":
        parts[part]["unknown"] = value
    elif kind == "part":
        del parts[part]
    elif kind == "unknown part":
        parts["unknown"] = {"x": value}
    elif kind == "loss nan":
        metrics = dict.fromkeys(metrics, float("nan"))
    elif kind == "no loss":
        metrics = {}
    return dataclasses.replace(reply, parts=parts, metrics=metrics)


def carry_out(request: dict[str, Any], output: int) -> None:
    """In a fork: run `gala` under the plan of a request, and end."""
    import galafed.cli
    import galafed.report.curves

    for standard in (1, 2):
        os.dup2(output, standard)
    plan = request["plan"]
    if not plan.get("picture"):
        galafed.report.curves.draw_run = lambda folder: folder / "curves.png"
    if "limit" in plan:
        limit_size(plan["limit"], plan.get("limit_after", ""))
    if "spoil" in plan:
        spoil_replies(**plan["spoil"])
    points = Points(**plan.get("points", {}))
    if "points" in plan:
        points.install()
    code = 1
    try:
        galafed.cli.main(request["arguments"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        if "points" in plan:
            sys.stderr.write(f"\npoints: {points.seen}\n")
        os._exit(code)


def import_what_a_run_imports() -> None:
    """Have a fork run once and tell what it imported on the way; then import it here, for all later forks."""
    import galafed.cli

    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory() as folder:
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            with contextlib.suppress(SystemExit):
                galafed.cli.main(["run", "toy", *COMMON, "--rounds", "1", "--out", f"{folder}/run"])
            os.write(writer, json.dumps(sorted(sys.modules)).encode())
            os._exit(0)
        os.close(writer)
        with open(reader) as told:
            modules = json.loads(told.read())
        os.waitpid(pid, 0)
    for name in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def serve() -> None:
    """Fork for every request; tell the process id, and when asked its exit code and what it said."""
    import galafed.runs.runner  # noqa: F401 - for all forks

    import_what_a_run_imports()
    gc.collect()
    gc.freeze()  # no fork looks for garbage in what all of them share
    said: dict[int, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            pid = request["wait"]
            with open(said.pop(pid)) as reader:  # a pipe: no limit on the size of files concerns it
                text = reader.read()
            answer: Any = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text]
        else:
            reading, writing = os.pipe()
            answer = os.fork()
            if answer == 0:
                carry_out(request, writing)
            os.close(writing)
            said[answer] = reading
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


# ------------------------------------------------------------------------------------------------- in the tests


@dataclasses.dataclass(frozen=True)
class Answer:
    """How a process ended and what it said."""

    code: int
    text: str

    def good(self) -> Answer:
        """It must have been a success."""
        assert self.code == 0, self.text
        assert "Traceback" not in self.text
        return self


class Forge:
    """Runs `gala` in forks of a prepared process."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=os.environ | {"COLUMNS": "200"},
        )

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, *arguments: str | Path, **plan: Any) -> int:
        """Start `gala` and return its process id."""
        return int(self._ask({"arguments": [str(a) for a in arguments], "plan": plan}))

    def wait(self, pid: int) -> Answer:
        """Wait for a process to end."""
        return Answer(*self._ask({"wait": pid}))

    def __call__(self, *arguments: str | Path, **plan: Any) -> Answer:
        return self.wait(self.start(*arguments, **plan))

    def finish(self, command: list[str], folder: Path) -> Answer:
        """Resume a run, or start it again if it died before its folder was there."""
        if folder.exists():
            return self("resume", folder).good()
        return self(*command, "--out", folder).good()

    def close(self) -> None:
        """End the prepared process."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait(timeout=60)


@pytest.fixture(scope="module")
def gala(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    """The prepared process."""
    forge = Forge(tmp_path_factory.mktemp("forge"))
    yield forge
    forge.close()


@dataclasses.dataclass(frozen=True)
class Reference:
    """An uninterrupted run."""

    folder: Path
    seconds: float
    points: int

    @property
    def digest(self) -> str:
        return digest(self.folder)


def uninterrupted(gala: Forge, folder: Path, command: list[str], **points: Any) -> Reference:
    """Run a command undisturbed, but counting."""
    started = time.perf_counter()
    answer = gala(*command, "--out", folder, points=points).good()
    return Reference(folder, time.perf_counter() - started, int(answer.text.rsplit("points:", 1)[1]))


@pytest.fixture(scope="module")
def eight(gala: Forge, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """GALA, eight rounds, with slow saves."""
    return uninterrupted(gala, tmp_path_factory.mktemp("eight") / "run", GALA_RUN, slow=0.001)


@pytest.fixture(scope="module")
def two(gala: Forge, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """FACT, two rounds."""
    return uninterrupted(gala, tmp_path_factory.mktemp("two") / "run", TWO_ROUNDS)


@pytest.fixture(scope="module")
def five(gala: Forge, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """FACT, five rounds, every checkpoint kept."""
    return uninterrupted(gala, tmp_path_factory.mktemp("five") / "run", FIVE_ROUNDS)


@pytest.fixture(scope="module")
def broken_off(gala: Forge, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, killed after four rounds: checkpoints 0 to 4."""
    folder = tmp_path_factory.mktemp("broken") / "run"
    assert gala(*FIVE_ROUNDS, "--out", folder, points={"after": "round-00004"}).code == -signal.SIGKILL
    assert [path.name for path in checkpoints(folder)] == [f"round-{k:05d}" for k in range(5)]
    assert not (folder / "done").exists()
    return folder


@pytest.fixture
def run(broken_off: Path, tmp_path: Path) -> Path:
    """A copy of that run to do harm to."""
    return Path(shutil.copytree(broken_off, tmp_path / "run"))


def digest(folder: Path) -> str:
    """The digest of a finished run."""
    assert (folder / "done").exists()
    return str(json.loads((folder / "summary.json").read_text())["digest"])


def checkpoints(folder: Path) -> list[Path]:
    """Every checkpoint, oldest first."""
    return sorted((folder / "checkpoints").glob("round-*"))


def rounds_told(folder: Path) -> list[int]:
    """The rounds in metrics.jsonl."""
    return [json.loads(line)["round"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def whole(folder: Path, reference: Reference) -> None:
    """A finished run is like the one that nobody disturbed."""
    assert digest(folder) == reference.digest
    assert rounds_told(folder) == rounds_told(reference.folder)
    assert {path.name for path in folder.iterdir()} == {path.name for path in reference.folder.iterdir()}
    assert not list(folder.rglob("*.part"))


# ---------------------------------------------------------------------------------------------------------- kill -9


TRIALS = 8


@pytest.mark.parametrize("trial", range(TRIALS))
def test_killed_at_a_random_instant_a_run_ends_with_the_same_bits(
    gala: Forge, eight: Reference, tmp_path: Path, trial: int
) -> None:
    rng = np.random.default_rng([2026, trial])
    folder = tmp_path / "run"
    instant = (trial + rng.uniform()) / TRIALS * eight.seconds
    for _ in range(1 + trial % 2):  # some are killed again and again
        command = ["resume", folder] if folder.exists() else [*GALA_RUN, "--out", folder]
        started = gala.start(*command, points={"slow": 0.001})
        time.sleep(instant)
        with contextlib.suppress(ProcessLookupError):
            os.kill(started, signal.SIGKILL)
        assert gala.wait(started).code in (-signal.SIGKILL, 0)
        instant = rng.uniform(0, eight.seconds / 3)
    gala.finish(GALA_RUN, folder)
    whole(folder, eight)


@pytest.mark.parametrize("trial", range(3))
def test_the_command_killed_at_a_random_instant_ends_with_the_same_bits(
    gala: Forge, eight: Reference, tmp_path: Path, trial: int
) -> None:
    rng = np.random.default_rng([7, trial])
    folder = tmp_path / "run"
    process = subprocess.Popen([GALA, *GALA_RUN, "--out", folder], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if trial:  # it runs
        process.stdout.readline()
        time.sleep(rng.uniform(0, 0.7 * eight.seconds))
    else:  # it starts
        time.sleep(rng.uniform(0.1, 1.5))
    process.kill()
    process.communicate()
    if trial == 1 and folder.exists():
        done = subprocess.run([GALA, "resume", folder], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    gala.finish(GALA_RUN, folder)
    (folder / "curves.png").unlink(missing_ok=True)
    whole(folder, eight)


PIECES = 8


@pytest.mark.parametrize("piece", range(PIECES))
def test_killed_at_every_single_write_a_run_ends_with_the_same_bits(
    gala: Forge, two: Reference, tmp_path: Path, piece: int
) -> None:
    assert two.points > 60, "a two-round run changes the disk in more places than were counted"
    for at in range(piece, two.points, PIECES):
        folder = tmp_path / f"run-{at}"
        assert gala(*TWO_ROUNDS, "--out", folder, points={"at": at}).code == -signal.SIGKILL, at
        gala.finish(TWO_ROUNDS, folder)
        whole(folder, two)


def test_killed_at_every_single_write_of_a_resume(gala: Forge, two: Reference, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    gala(*TWO_ROUNDS, "--out", broken, points={"after": "round-00001"})
    shutil.copytree(broken, tmp_path / "counted")
    total = int(gala("resume", tmp_path / "counted", points={}).good().text.rsplit("points:", 1)[1])
    assert total > 30
    for at in range(0, total, 3):
        folder = tmp_path / f"run-{at}"
        shutil.copytree(broken, folder)
        assert gala("resume", folder, points={"at": at}).code == -signal.SIGKILL, at
        assert gala("resume", folder, points={"at": at // 2}).code in (-signal.SIGKILL, 0)
        gala.finish(TWO_ROUNDS, folder)
        whole(folder, two)


# ------------------------------------------------------------------------------------------------------ interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupted_run_says_how_to_go_on(
    gala: Forge, eight: Reference, tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "run"
    command = [GALA, *GALA_RUN, "--out", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("round   2/"):
        assert process.poll() is None
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"gala resume {folder}" in " ".join(errors.split())
    assert "Traceback" not in errors
    assert not (folder / "done").exists()
    assert not list(folder.rglob("*.part"))
    answer = gala("resume", folder).good()
    assert "going on after round" in answer.text
    whole(folder, eight)


# -------------------------------------------------------------------------------------------------- damaged on disk

KINDS = ("cut", "flip", "delete", "empty", "garbage", "swap", "no manifest", "no files")
FILES = ("model.safetensors", "manifest.json", "tested.safetensors", "clients.safetensors")


def damage(path: Path, kind: str, file: str, rng: np.random.Generator) -> set[str]:
    """Do harm to a checkpoint; returns the names of those harmed."""
    victim = path / file
    content = victim.read_bytes()
    if kind == "cut":
        victim.write_bytes(content[: rng.integers(len(content))])
    elif kind == "flip":
        position = int(rng.integers(len(content)))
        changed = content[position] ^ (1 << int(rng.integers(8)))
        victim.write_bytes(content[:position] + bytes([changed]) + content[position + 1 :])
    elif kind == "delete":
        victim.unlink()
    elif kind == "empty":
        victim.write_bytes(b"")
    elif kind == "garbage":
        victim.write_bytes(rng.bytes(len(content)))
    elif kind == "swap":
        other = path.with_name(f"round-{int(path.name[-5:]) - 1:05d}") / file
        victim.write_bytes(other.read_bytes())
        other.write_bytes(content)
        return {path.name, other.parent.name}
    elif kind == "no manifest":
        (path / "manifest.json").unlink()
    else:
        shutil.rmtree(path)
        path.mkdir()
    return {path.name}


@pytest.mark.parametrize("trial", range(3 * len(KINDS)))  # every kind with one, two and three checkpoints
def test_a_damaged_checkpoint_is_named_and_an_older_one_used(
    gala: Forge, five: Reference, run: Path, trial: int
) -> None:
    rng = np.random.default_rng([30, trial])
    kind, several = KINDS[trial % len(KINDS)], 1 + trial // 4 % 3
    harmed: set[str] = set()
    for path in reversed(checkpoints(run)[-several:]):
        if path.name not in harmed:
            harmed |= damage(path, kind, FILES[int(rng.integers(len(FILES)))], rng)
    answer = gala("resume", run).good()
    for name in harmed:
        assert f"checkpoint {name} is damaged" in answer.text
    newest = max(path.name for path in checkpoints(five.folder)[:5] if path.name not in harmed)
    assert f"going on from round {int(newest[-5:])}\n" in answer.text
    whole(run, five)


@pytest.mark.parametrize("position", ["first", "last"])
def test_a_flipped_bit_anywhere_in_a_manifest_is_noticed(run: Path, position: str) -> None:
    from galafed.runs.checkpoint import DamagedError, load

    path = checkpoints(run)[-1] if position == "last" else checkpoints(run)[0]
    manifest = path / "manifest.json"
    content = manifest.read_bytes()
    before = json.loads(content)
    load(path)
    rng = np.random.default_rng(1)
    for place in range(0, len(content), 1 + len(content) // 500):
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        with contextlib.suppress(ValueError):
            if json.loads(bytes(changed)) == before:  # 1e-05 or 1E-05
                continue
        manifest.write_bytes(changed)
        with pytest.raises(DamagedError):
            load(path)


def test_a_file_in_the_place_of_a_checkpoint_is_named(gala: Forge, five: Reference, run: Path) -> None:
    shutil.rmtree(checkpoints(run)[-1])
    (run / "checkpoints" / "round-00004").write_text("not a folder")
    answer = gala("resume", run).good()
    assert "checkpoint round-00004 is damaged" in answer.text
    whole(run, five)


def test_checkpoints_that_changed_names_do_no_harm(gala: Forge, five: Reference, run: Path) -> None:
    *_, before, last = checkpoints(run)
    before.rename(run / "elsewhere")
    last.rename(before)
    (run / "elsewhere").rename(last)
    gala("resume", run).good()
    assert digest(run) == five.digest
    assert rounds_told(run) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("how", ["damaged", "removed", "no folder"])
@pytest.mark.parametrize("verb", ["resume", "run"])
def test_without_a_valid_checkpoint_nothing_is_started_afresh(gala: Forge, run: Path, how: str, verb: str) -> None:
    rng = np.random.default_rng(4)
    for path in checkpoints(run):
        if how == "damaged":
            damage(path, "flip", "model.safetensors", rng)
        else:
            shutil.rmtree(path)
    if how == "no folder":
        (run / "checkpoints").rmdir()
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}
    answer = gala("resume", run) if verb == "resume" else gala(*FIVE_ROUNDS, "--out", run)
    assert answer.code == 4, answer.text
    assert "no valid checkpoint" in answer.text
    assert "Traceback" not in answer.text
    if how == "damaged":
        assert all(f"round-{k:05d} is damaged" in answer.text for k in range(5))
    assert "round   1/5" not in answer.text
    after = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}
    assert after == before


@pytest.mark.parametrize("how", ["deleted", "emptied", "cut", "garbage", "doubled"])
def test_damaged_metrics_are_written_anew(gala: Forge, five: Reference, run: Path, how: str) -> None:
    metrics = run / "metrics.jsonl"
    content = metrics.read_bytes()
    if how == "deleted":
        metrics.unlink()
    else:
        choices = {"emptied": b"", "cut": content[: len(content) // 2], "garbage": b"\xff\x00{", "doubled": content * 2}
        metrics.write_bytes(choices[how])
    shown = gala("show", run)
    assert "Traceback" not in shown.text
    gala("resume", run).good()
    whole(run, five)


def test_a_changed_configuration_is_refused(gala: Forge, five: Reference, run: Path) -> None:
    config = run / "config.toml"
    original = config.read_text()
    for before, after in (("seed = 0", "seed = 1"), ("lr = 0.02", "lr = 0.03"), ("rounds = 5", "rounds = 6")):
        assert before in original
        config.write_text(original.replace(before, after))
        answer = gala("resume", run)
        assert answer.code == 4, answer.text
        assert "was changed" in answer.text
        assert "Traceback" not in answer.text
        assert len(checkpoints(run)) == 5
    config.write_text(original)
    gala("resume", run).good()
    whole(run, five)


@pytest.mark.parametrize("content", [None, "", "rounds = \n", "\x00"])
def test_a_lost_configuration_is_refused(gala: Forge, run: Path, content: str | None) -> None:
    config = run / "config.toml"
    if content is None:
        config.unlink()
    else:
        config.write_text(content)
    answer = gala("resume", run)
    assert answer.code in (2, 4), answer.text
    assert "config.toml" in answer.text
    assert "Traceback" not in answer.text
    assert len(checkpoints(run)) == 5


# -------------------------------------------------------------------------------------------------------- disk full


def refused(answer: Answer) -> None:
    """A full disk was reported as such."""
    assert answer.code not in (0, -signal.SIGXFSZ), answer.text
    assert "Traceback" not in answer.text, answer.text
    assert "disk is full or a size limit is reached" in answer.text


def test_a_full_disk_at_the_start_leaves_nothing(gala: Forge, two: Reference, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    script = 'ulimit -f 40; exec "$@"'
    command = ["bash", "-c", script, "-", GALA, *TWO_ROUNDS, "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    refused(Answer(done.returncode, done.stdout + done.stderr))
    assert not list(tmp_path.iterdir())
    gala(*TWO_ROUNDS, "--out", folder).good()
    whole(folder, two)


@pytest.mark.parametrize("size", [0, 3000, 60_000])
def test_a_disk_that_fills_up_spares_what_was_saved(gala: Forge, five: Reference, tmp_path: Path, size: int) -> None:
    folder = tmp_path / "run"
    refused(gala(*FIVE_ROUNDS, "--out", folder, limit=size, limit_after="round-00002"))
    assert [path.name for path in checkpoints(folder)] == ["round-00000", "round-00001", "round-00002"]
    assert not list(folder.rglob("*.part"))
    refused(gala("resume", folder, limit=size))
    assert "Traceback" not in gala("resume", folder).good().text
    whole(folder, five)


def test_a_disk_too_full_for_the_picture_is_no_traceback(gala: Forge, two: Reference, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    answer = gala(*TWO_ROUNDS, "--out", folder, limit=1000, limit_after="done", picture=True)
    assert digest(folder) == two.digest
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("piece", range(4))
def test_a_disk_full_from_any_write_on_is_reported_and_the_run_goes_on_later(
    gala: Forge, two: Reference, tmp_path: Path, piece: int
) -> None:
    total = uninterrupted(gala, tmp_path / "counted", TWO_ROUNDS, action="full").points
    assert total > 20
    silent = []
    for at in range(piece, total, 4):
        folder = tmp_path / f"run-{at}"
        answer = gala(*TWO_ROUNDS, "--out", folder, points={"action": "full", "at": at})
        if answer.code == 0 or "Traceback" in answer.text or "disk is full" not in answer.text:
            silent.append((at, answer.code, answer.text[-300:]))
        gala.finish(TWO_ROUNDS, folder)
        whole(folder, two)
    assert silent == []


# ---------------------------------------------------------------------------------------------------- two processes


def test_a_second_process_is_kept_away(gala: Forge, eight: Reference, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = gala.start(*GALA_RUN, "--out", folder, points={"slow": 0.02})
    deadline = time.monotonic() + 60
    while not (folder / "checkpoints" / "round-00001").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for command in (["resume", folder], [*GALA_RUN, "--out", folder], [*GALA_RUN, "--overwrite", "--out", folder]):
        answer = gala(*command)
        assert answer.code == 2, answer.text
        assert "another process is working on this run" in answer.text
        assert "Traceback" not in answer.text
    gala.wait(first).good()
    whole(folder, eight)


def test_a_lock_left_by_a_dead_process_is_no_obstacle(gala: Forge, five: Reference, run: Path) -> None:
    assert (run / "lock").exists()
    gala("resume", run).good()
    whole(run, five)


# ---------------------------------------------------------------------------------------------------- spoilt replies

THREE = ["run", "toy", *COMMON, "--rounds", "2", "--set", 'sources=["bright", "dark", "faint"]']


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        ("nan", "centroids"),
        ("nan", "train"),
        ("nan", "tune"),
        ("inf", "train"),
        ("-inf", "tune"),
        ("shape", "train"),
        ("shape", "centroids"),
        ("key", "train"),
        ("unknown key", "tune"),
        ("part", "train"),
        ("unknown part", "centroids"),
        ("loss nan", "train"),
        ("no loss", "train"),
    ],
)
def test_a_client_that_sends_nonsense_is_left_out_by_name(gala: Forge, tmp_path: Path, kind: str, task: str) -> None:
    folder = tmp_path / "run"
    answer = gala(*THREE, "--out", folder, spoil={"clients": ["bright"], "kind": kind, "tasks": [task]}).good()
    assert "bright: excluded" in answer.text
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        assert [(failure["client"], failure["task"], failure["kind"]) for failure in line["failures"]] == [
            ("bright", task, "invalid")
        ]
        assert "bright" in line["failures"][0]["reason"]
        assert line["relevance"].keys() == {"dark", "faint"}
        assert abs(sum(line["relevance"].values()) - 1) < 1e-9
        assert all(np.isfinite(line[key]) for key in ("loss", "discrepancy", "accuracy"))
    assert json.loads((folder / "summary.json").read_text())["failures"] == 2


@pytest.mark.parametrize(
    ("clients", "task"), [(["bright", "dark"], "train"), (["bright", "dark"], "tune"), (["noisy"], "align")]
)
def test_when_too_few_are_left_the_round_is_undone(
    gala: Forge, five: Reference, tmp_path: Path, clients: list[str], task: str
) -> None:
    folder = tmp_path / "run"
    spoil = {"clients": clients, "kind": "nan", "first_round": 2, "tasks": [task]}
    answer = gala(*FIVE_ROUNDS, "--out", folder, spoil=spoil)
    assert answer.code == 5, answer.text
    assert "Traceback" not in answer.text
    assert all(client in answer.text for client in clients)
    assert "round 3" in answer.text
    assert "undone" in answer.text
    assert [path.name for path in checkpoints(folder)][-1] == "round-00002"
    assert rounds_told(folder) == [1, 2]
    assert not (folder / "done").exists()
    gala("resume", folder).good()
    whole(folder, five)


def test_a_quorum_is_kept(gala: Forge, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    spoil = {"clients": ["bright"], "kind": "nan"}
    answer = gala(*THREE, "--set", "quorum=3", "--out", folder, spoil=spoil)
    assert answer.code == 5, answer.text
    assert "bright" in answer.text


if __name__ == "__main__":
    serve()
