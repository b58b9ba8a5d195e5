"""A site: bytes in, bytes out. What it is asked is checked against its policy, done, written down and answered."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import torch

from galafed import __version__
from galafed.algorithms.base import algorithms
from galafed.benchmarks.base import Domain, benchmarks
from galafed.client import Client, Memory
from galafed.config import Run, resolve
from galafed.errors import ConfigError, GalafedError
from galafed.loops import Bench
from galafed.messages import Failure, Job, Reply
from galafed.model import StateError, check
from galafed.networks.base import networks
from galafed.runs.assembly import pick_device, source_images, target_images
from galafed.sites import wire
from galafed.sites.diary import Diary, Forgotten
from galafed.sites.ledger import Direction, Ledger, entry, facts_of, file_name
from galafed.sites.policy import PolicyError
from galafed.sites.settings import SiteSettings
from galafed.work import Sweep

log = logging.getLogger(__name__)

NOWHERE = ("folder",)
"""Benchmarks whose configuration names a path; a path at a site is nobody's to choose but the site's."""


class Opened:
    """A run a site works for: its configuration, the bench, the client with its data, and what it sent this round."""

    def __init__(self, run: str, config: Run, bench: Bench, client: Client, diary: Diary) -> None:
        self.run = run
        self.config = config
        self.bench = bench
        self.client = client
        self.diary = diary
        self.place = (-1, -1)
        """The round and question after which the client's memory is what it is now."""
        self.sent: dict[int, int] = {}
        self.last: tuple[int, bytes] = (-1, b"")


class Site:
    """One party of a federation. `handle` never raises: whatever goes wrong becomes a named failure."""

    def __init__(self, settings: SiteSettings, folder: Path, *, largest: int | None = None) -> None:
        self.settings = settings
        self.folder = folder
        self.largest = largest
        """Bytes of the largest request that is looked at."""
        self._lock = threading.Lock()
        self._open: Opened | None = None
        self._loaded: tuple[str, Domain] | None = None

    def handle(self, request: bytes) -> bytes:
        """The answer to a request. The same request twice has the same answer."""
        name = self.settings.name
        try:
            message = wire.decode_request(request, self.largest)
        except wire.WireError as error:
            reason = f"the request cannot be read: {error}"
            return wire.encode(wire.Answer("", "", 0, name, Failure(name, "-", "invalid", reason)))
        task = message.body.task.name if isinstance(message.body, wire.Ask) else type(message.body).__name__.lower()
        try:
            if isinstance(message.body, wire.Ping):  # answered even while a task is being done
                body: Reply | Failure | wire.Opened = wire.Opened({})
            elif isinstance(message.body, wire.Open):
                with self._lock:
                    body = self._begin(message, message.body)
            else:
                with self._lock:
                    return self._work(message, message.body, request)
        except (PolicyError, GalafedError) as error:
            body = Failure(name, task, "refused", str(error))
        except Forgotten as error:
            body = Failure(name, task, "lost", str(error))
        except Exception as error:  # a server must not be able to stop a site, nor a bug of ours
            log.exception("%s failed", task)
            body = Failure(name, task, "broken", f"{type(error).__name__}: {error}")
        return wire.encode(wire.Answer(message.run, message.attempt, message.sequence, name, body))

    def _begin(self, message: wire.Request, body: wire.Open) -> wire.Opened:
        """Accept a run, or say why not."""
        diary = Diary(self._folder_of(message.run))
        opened = self._prepare(message.run, dict(body.config), diary)
        diary.open(message.attempt, body.config, body.rounds_done)
        self._open = opened
        data = opened.client.data
        facts = {
            "version": __version__,
            "device": str(opened.bench.device),
            "images": len(data),
            "labels": data.labels is not None,
            "tests": len(data.exam) if data.exam is not None else 0,
        }
        return wire.Opened(facts)

    def _prepare(self, run: str, values: dict[str, Any], diary: Diary) -> Opened:
        """Everything a run needs at this site, from the run's configuration and the site's own file."""
        settings = self.settings
        config = resolve({key: value for key, value in values.items() if key != "federation"})
        if settings.name not in (*config.sources, config.target):
            raise ConfigError(f"the run has no domain called {settings.name!r}")
        role = "target" if settings.name == config.target else "source"
        if role != settings.role:
            raise ConfigError(f"the run takes it for a {role}, and its file says that it is a {settings.role}")
        torch.set_num_threads(config.threads)
        device = pick_device(settings.device or config.device)
        dtype = torch.float64 if config.precision == "float64" else torch.float32
        products = torch.bfloat16 if config.precision == "bfloat16" else None
        benchmark = benchmarks.get(config.benchmark)(config.benchmark_settings)
        network = networks.get(config.network)(classes=len(benchmark.classes), image_size=benchmark.image_size)
        algorithm = algorithms.get(config.algorithm)(config.settings, config.training, rounds=config.rounds)
        if algorithm.sees_target_labels and role == "target":
            settings.allow.check_task("train", role)
        domain = self._domain(config)
        data = source_images(domain, config) if role == "source" else target_images(domain, algorithm)
        client = Client(settings.name, data.to(device))
        return Opened(run, config, Bench(network, device, dtype, products), client, diary)

    def _domain(self, config: Run) -> Domain:
        """The site's images: its own, or those of a benchmark that it has itself."""
        name, data = self.settings.name, self.settings.data
        if data and config.benchmark != "sites":
            raise ConfigError(
                f"it has images of its own, which only the benchmark 'sites' uses, not {config.benchmark!r}"
            )
        if not data and (config.benchmark in NOWHERE or config.benchmark == "sites"):
            raise ConfigError("its file names no images (data); where they are is not the server's to say")
        benchmark = benchmarks.get(config.benchmark)(config.benchmark_settings)
        key = f"{config.benchmark} {config.benchmark_settings}"
        if self._loaded is None or self._loaded[0] != key:
            if data:
                from galafed.sites.own_images import read_domain

                self._loaded = (key, read_domain(self.settings, benchmark.classes, benchmark.image_size))
            else:
                self._loaded = (key, benchmark.load(name))
        return self._loaded[1]

    def _work(self, message: wire.Request, body: wire.Ask, request: bytes) -> bytes:
        """Do a task within the policy and write down what came in and what leaves."""
        name, task = self.settings.name, body.task
        opened = self._opened(message)
        if opened is None:
            failure = Failure(name, task.name, "unopened", "it does not work for this run yet")
            return wire.encode(wire.Answer(message.run, message.attempt, message.sequence, name, failure))
        if opened.last[0] == message.sequence:
            self._note(message, body, "out", opened.last[1], note="sent again")
            return opened.last[1]
        self._note(message, body, "in", request)
        try:
            self.settings.allow.check_task(task.name, self.settings.role)
            answer = self._execute(message, body, opened)
            content = wire.encode(wire.Answer(message.run, message.attempt, message.sequence, name, answer))
            if isinstance(answer, Reply):
                self.settings.allow.check_parts(answer.parts)
                self.settings.allow.check_bytes(opened.sent.get(body.round, 0), len(content))
        except PolicyError as error:
            refused = Failure(name, task.name, "refused", str(error))
            content = wire.encode(wire.Answer(message.run, message.attempt, message.sequence, name, refused))
        opened.sent = {body.round: opened.sent.get(body.round, 0) + len(content)}
        self._note(message, body, "out", content)
        opened.last = (message.sequence, content)
        return content

    def _opened(self, message: wire.Request) -> Opened | None:
        """The run a question belongs to; after a restart it is opened again from the site's own files."""
        if self._open is None or self._open.run != message.run:
            diary = Diary(self._folder_of(message.run))
            if diary.attempt != message.attempt:
                return None
            self._open = self._prepare(message.run, dict(diary.config), diary)
        return self._open if self._open.diary.attempt == message.attempt else None

    def _execute(self, message: wire.Request, body: wire.Ask, opened: Opened) -> Reply | Failure:
        """Do the task from what the client kept before this question, and keep what it keeps after it."""
        client, place = opened.client, (body.round, message.sequence)
        if opened.place[0] != body.round or opened.place[1] >= message.sequence:
            cache = client.memory.cache if opened.place < place else {}
            client.memory = _on(opened.diary.recall(body.round, message.sequence), opened.bench.device)
            client.memory.cache = cache
        before = _state_of(client.memory)
        device = opened.bench.device
        payload = {
            part: _moved(state, device) if isinstance(state, dict) else state for part, state in body.payload.items()
        }
        job = Job(client.name, body.round, body.task, payload, body.tags)
        answer = client.execute(job, opened.bench, opened.config.seed)
        opened.place = place
        if _differ(before, _state_of(client.memory)):
            opened.diary.keep(client.memory, message.sequence, opened.config.keep_checkpoints + 1)
        if isinstance(answer, Reply):
            self._check(body, answer, opened)
        return answer

    def _check(self, body: wire.Ask, reply: Reply, opened: Opened) -> None:
        """Nothing leaves but what the task says: these parts, tensors and shapes."""
        work = body.task.work
        schema = work.schema(opened.bench.network)
        if extra := reply.parts.keys() - schema.keys():
            raise PolicyError(f"the task {body.task.name!r} would send {min(extra)!r}, which it does not say")
        precision = torch.float64 if isinstance(work, Sweep) and work.exact else opened.bench.dtype
        for part, state in reply.parts.items():
            try:
                check(state, schema[part], reply.client, dtype=precision)
            except StateError as error:
                raise PolicyError(str(error)) from None

    def _note(
        self, message: wire.Request, body: wire.Ask, direction: Direction, content: bytes, note: str = ""
    ) -> None:
        facts = facts_of(content)
        line = entry(
            site=self.settings.name,
            round_number=body.round,
            task=body.task.name,
            direction=direction,
            sequence=message.sequence,
            **facts | ({"note": note} if note else {}),
        )
        Ledger(self.folder / "ledger" / f"{file_name(message.run)}.jsonl").write(line | {"attempt": message.attempt})

    def _folder_of(self, run: str) -> Path:
        return self.folder / "runs" / file_name(run)


def _state_of(memory: Memory) -> dict[tuple[str, str, str], torch.Tensor]:
    """The tensors a client keeps."""
    kinds = (("round", memory.round), ("run", memory.run), ("rows", memory.rows))
    return {(k, part, name): v for k, parts in kinds for part, s in parts.items() for name, v in s.items()}


def _differ(before: dict[tuple[str, str, str], torch.Tensor], after: dict[tuple[str, str, str], torch.Tensor]) -> bool:
    """Whether anything is kept that was not: nothing is changed in place, so another tensor tells."""
    return before.keys() != after.keys() or any(after[key] is not value for key, value in before.items())


def _moved(state: dict[str, torch.Tensor], device: torch.device) -> dict[str, torch.Tensor]:
    return {name: value.to(device) for name, value in state.items()}


def _on(memory: Memory, device: torch.device) -> Memory:
    for parts in (memory.round, memory.run, memory.rows):
        for part, state in parts.items():
            parts[part] = _moved(state, device)
    return memory
