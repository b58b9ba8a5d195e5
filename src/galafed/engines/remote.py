"""What every engine with real sites shares: questions as bytes over some transport, answers as they come.

An engine is this and a `Transport`. Nobody's image is ever on this side.
"""

from __future__ import annotations

import math
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from galafed.allocation import give_back_at_once
from galafed.errors import ConfigError
from galafed.federation import Engine
from galafed.messages import Failure, Held, Job, Reply
from galafed.sites.ledger import Direction, entry, facts_of

if TYPE_CHECKING:
    from galafed.config import Run
    from galafed.loops import Bench, Images

PATIENCE = 600.0
"""Seconds a site may take where the run sets no time-out: a site that is gone must not stop the others for ever."""

SPOOLED = 2**20
"""Answers of more bytes wait in files."""

ROOM = 2**20
"""What an answer may have besides the tensors it promises."""


class Deadline:
    """The end of a question; time that a transport spends on starting things again is no site's."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left, never none."""
        return max(self._end - time.monotonic(), 0.001)

    def extend(self, seconds: float) -> None:
        """Put the end off."""
        self._end += seconds


Arrived = Callable[[str, "bytes | Path | Failure"], None]


class Transport(Protocol):
    """Carries bytes to named sites and back."""

    def send(self, requests: Mapping[str, bytes], timeout: float | None, arrived: Arrived, largest: int) -> None:
        """Send every site its request and tell `arrived` each answer as it comes, from any thread, in any order.

        Returns when all have answered or the time is over. A site that cannot be reached is told as a `Failure`, or not
        at all. An answer may come as a file, which then belongs to the receiver; one of more than `largest` bytes is a
        failure, and as little of it as possible is taken in.
        """

    def close(self) -> None:
        """Let go of connections and processes."""


class Remote(Engine):
    """Clients are sites that keep their data and memory; this side asks, waits, and drops what is not an answer."""

    federated: ClassVar[bool] = True
    probe_seconds: ClassVar[float] = 2.0
    """In which a site that kept silent before must say that it is there."""

    def __init__(self, *, bench: Bench, data: Mapping[str, Images], seed: int, config: Run | None = None) -> None:
        if config is None:
            raise ConfigError("an engine with sites needs the configuration of a run")
        self.config = config
        self.network = bench.network
        self.facts: dict[str, Mapping[str, Any]] = {}
        """What each site told of itself when it accepted the run."""
        self._run = config.hash()[:16]
        self._attempt = secrets.token_hex(8)
        self._sequence = 0
        self._first_round: int | None = None
        self._silent: set[str] = set()
        self._transport: Transport | None = None
        self._spool: tempfile.TemporaryDirectory[str] | None = None

    def connect(self) -> Transport:
        """The transport, made at the first question."""
        raise NotImplementedError

    def dispatch(
        self, jobs: Sequence[Job], timeout: float | None, progress: Callable[[int], None]
    ) -> list[Reply | Failure]:
        if self._transport is None:
            give_back_at_once()
            self._transport = self.connect()
        if self._first_round is None:
            self._first_round = jobs[0].round
        deadline = Deadline(timeout or PATIENCE)
        failures = self._probe({job.client for job in jobs}, jobs[0].task.name, deadline)
        there = [job for job in jobs if job.client not in failures]
        failures |= self._open([job.client for job in there if job.client not in self.facts], there, deadline)
        there = [job for job in there if job.client not in failures]
        deadline = Deadline(timeout or PATIENCE)  # whoever was waited for until now, nobody has had time for the task
        answers = self._ask(there, deadline, lambda done: progress(done + len(failures)))
        shut = [job for job in there if _is(answers[job.client], "unopened")]
        if shut:  # a site was started again and no longer knows the run
            deadline = Deadline(timeout or PATIENCE)  # nor had this one, while another kept silent
            for job in shut:
                del self.facts[job.client]
            failures |= self._open([job.client for job in shut], shut, deadline)
            answers |= self._ask([job for job in shut if job.client not in failures], deadline, progress)
        answers |= failures
        for job in jobs:
            if _is(answers[job.client], "late"):
                self._silent.add(job.client)
        return [answers[job.client] for job in jobs]

    def _probe(self, clients: set[str], task: str, deadline: Deadline) -> dict[str, Reply | Failure]:
        """A failure for each site that was silent before and still is; a whole time-out is spent on it only once."""
        from galafed.sites import wire

        suspects = sorted(clients & self._silent)
        if not suspects:
            return {}
        ping = wire.encode(wire.Request(self._run, self._attempt, self._next(), wire.Ping()))
        heard = self._exchange(dict.fromkeys(suspects, ping), deadline, most=self.probe_seconds)
        self._silent -= {name for name, answer in heard.items() if isinstance(answer, wire.Answer)}
        gone = "it has not answered since an earlier question"
        return {name: Failure(name, task, "lost", gone) for name in suspects if name in self._silent}

    def _open(self, clients: Sequence[str], jobs: Sequence[Job], deadline: Deadline) -> dict[str, Reply | Failure]:
        """Have sites accept the run; a failure for each that does not."""
        from galafed.sites import wire

        if not clients:
            return {}
        task = jobs[0].task.name
        body = wire.Open(self.config.to_dict(), self._first_round or 0)
        request = wire.encode(wire.Request(self._run, self._attempt, self._next(), body))
        heard = self._exchange(dict.fromkeys(clients, request), deadline)
        failures: dict[str, Reply | Failure] = {}
        for name in clients:
            answer = heard.get(name)
            if isinstance(answer, wire.Answer) and isinstance(answer.body, wire.Opened):
                self.facts[name] = answer.body.facts
                continue
            failure = answer.body if isinstance(answer, wire.Answer) else answer
            failures[name] = self._late(name, task)
            if isinstance(failure, Failure):
                failures[name] = Failure(name, task, failure.kind, failure.reason)
        return failures

    def _ask(
        self, jobs: Sequence[Job], deadline: Deadline, progress: Callable[[int], None]
    ) -> dict[str, Reply | Failure]:
        """Every job's answer; payloads that are the same for several sites are encoded once."""
        from galafed.sites import wire

        if not jobs:
            return {}
        sequence = self._next()
        encoded: dict[tuple[object, ...], tuple[bytes, dict[str, Any]]] = {}
        requests = {}
        for job in jobs:
            key = (id(job.task), *((n, s.tag if isinstance(s, Held) else id(s)) for n, s in job.payload.items()))
            key = (*key, *sorted(job.tags.items()))
            if key not in encoded:
                body = wire.Ask(job.round, job.task, job.payload, job.tags)
                content = wire.encode(wire.Request(self._run, self._attempt, sequence, body))
                encoded[key] = content, facts_of(content)
            requests[job.client], facts = encoded[key]
            self._write_down(job, "in", facts)
        encoded.clear()
        heard = self._exchange(requests, deadline, progress, {job.client: job for job in jobs})
        answers: dict[str, Reply | Failure] = {}
        for job in jobs:
            name, answer = job.client, heard.get(job.client)
            if isinstance(answer, Failure):
                answers[name] = Failure(name, job.task.name, answer.kind, answer.reason)
            elif isinstance(answer, wire.Answer) and isinstance(answer.body, Reply | Failure):
                answers[name] = answer.body
            else:
                answers[name] = self._late(name, job.task.name)
        return answers

    def _exchange(
        self,
        requests: dict[str, bytes],
        deadline: Deadline,
        progress: Callable[[int], None] = lambda done: None,
        jobs: Mapping[str, Job] | None = None,
        most: float = math.inf,
    ) -> dict[str, Any]:
        """What each site first said to the question of the current number: a `wire.Answer`, or a failure."""
        heard: dict[str, Any] = {}
        lock = threading.Lock()
        sequence = self._sequence
        expected = frozenset(requests)

        def arrived(name: str, content: bytes | Path | Failure) -> None:
            if name not in expected or name in heard:
                _discard(content)
                return
            answer = (
                content if isinstance(content, Failure) else self._read(name, content, sequence, (jobs or {}).get(name))
            )
            if answer is None:  # to another question: late, and no longer of use
                return
            with lock:
                if name in heard or closed:
                    return
                heard[name] = answer
                progress(len(heard))

        closed = False
        if self._transport is None:
            raise RuntimeError("the engine is closed")
        before = getattr(self._transport, "delayed", 0.0)
        largest = max((self._largest(job) for job in jobs.values()), default=ROOM) if jobs else ROOM
        self._transport.send(requests, min(deadline.left(), most), arrived, largest)
        deadline.extend(getattr(self._transport, "delayed", 0.0) - before)
        with lock:
            closed = True
            return dict(heard)

    def _read(self, name: str, content: bytes | Path, sequence: int, job: Job | None) -> Any:
        """The answer in some bytes, nothing if it belongs to another question, or a failure that says what is wrong."""
        from galafed.sites import wire

        largest = ROOM if job is None else self._largest(job)
        try:
            if isinstance(content, bytes) and SPOOLED < len(content) <= largest:
                content = self._to_file(content)
            if job is not None and wire.header_of(content).get("sequence") == sequence:
                self._write_down(job, "out", facts_of(content))
            answer = wire.decode_answer(content, largest)
        except wire.WireError as error:
            _discard(content)
            return Failure(name, "-", "invalid", f"its answer cannot be used: {error}")
        if not answer.run:  # it could not read the question, and so not tell which one
            return answer.body
        if (answer.run, answer.attempt, answer.sequence) != (self._run, self._attempt, sequence):
            return None
        if answer.site != name:
            return Failure(name, "-", "invalid", f"its answer is signed by {answer.site!r}")
        return answer

    def _to_file(self, content: bytes) -> Path:
        if self._spool is None:
            self._spool = tempfile.TemporaryDirectory(prefix="galafed-", ignore_cleanup_errors=True)
        path = Path(self._spool.name) / f"{secrets.token_hex(8)}.safetensors"
        path.write_bytes(content)
        return path

    def _write_down(self, job: Job, direction: Direction, facts: Mapping[str, Any]) -> None:
        line = entry(
            site=job.client,
            round_number=job.round,
            task=job.task.name,
            direction=direction,
            sequence=self._sequence,
            **facts,
        )
        self.books.write(line | {"attempt": self._attempt})

    def _largest(self, job: Job) -> int:
        """The most bytes an honest answer can have."""
        schema = job.task.work.schema(self.network)
        numbers = 0
        for tensors in schema.values():
            for shape, _ in tensors.values():
                count = 1
                for side in shape:
                    count *= side
                numbers += count
        return 8 * numbers + ROOM

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def _late(self, name: str, task: str) -> Failure:
        return Failure(name, task, "late", "no answer came within the time-out")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        if self._spool is not None:
            self._spool.cleanup()
            self._spool = None


def _is(answer: Reply | Failure, kind: str) -> bool:
    return isinstance(answer, Failure) and answer.kind == kind


def _discard(content: bytes | Path | Failure) -> None:
    if isinstance(content, Path):
        content.unlink(missing_ok=True)
