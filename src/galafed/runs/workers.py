"""Calls done in processes that stop when this one is interrupted, and never outlive it.

A process asks for nothing: it is given one call at a time, so there is nothing left for it to take up once it was told
to stop. Being told is a SIGTERM, which ends a call as Ctrl-C ends `gala run`: by a KeyboardInterrupt, so that whatever
is open gets closed and a GPU is left as one leaves it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from galafed.errors import GalafedError

T = TypeVar("T")

INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM)
TOGETHER = 1.0
"""Signals that come within so many seconds are one interruption: some programs send one to a process and its group."""
GRACE = 30.0
"""Seconds that a process has to stop; engines with sites end their programs in that time."""


class ProcessLostError(Exception):
    """A process has ended in the middle of a call, killed by somebody else."""


class CallError(Exception):
    """What a call has raised, by name and text: not every exception can be sent from a process to another."""


def shared_out(calls: Sequence[Callable[[], T]], jobs: int) -> Generator[tuple[int, T | Exception], None, None]:
    """Do calls, `jobs` at a time; of each, when it is done, its number and what it returned or raised.

    A process whose call has raised something is not used again: it may have lost its GPU for good. Whoever leaves early
    closes this, and the calls that are being done stop.
    """
    waiting = list(enumerate(calls))[::-1]
    processes: list[BaseProcess] = []
    lines: list[Connection] = []
    busy: dict[Connection, int] = {}

    def begin() -> Connection:
        with held_back():
            line, process = _started()
            lines.append(line)
            processes.append(process)
        return line

    def give(line: Connection) -> None:
        number, call = waiting.pop()
        busy[line] = number
        with contextlib.suppress(BrokenPipeError):  # a lost process is seen where its answer is awaited
            line.send(call)

    with _one_interruption(processes) as interruption:
        try:
            resource_tracker.ensure_running()  # the first process would start it, which lets signals through again
            for _ in range(min(jobs, len(calls))):
                begin()
            for line in lines:
                give(line)
            while busy:
                ready = wait(busy)
                for line in [line for line in lines if line in ready]:
                    number, answer = busy.pop(line), _received(line)
                    if isinstance(answer, KeyboardInterrupt):
                        raise answer
                    spent = isinstance(answer, Exception)
                    if spent:
                        lines.remove(line)
                        line.close()  # which ends its process
                    if waiting:
                        give(begin() if spent else line)
                    yield number, answer
        finally:
            interruption.stopping = True
            for process in processes if busy else ():
                process.terminate()
            for line in lines:
                line.close()
            _end(processes)


def _started() -> tuple[Connection, BaseProcess]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with theirs:  # closed here, so that the end of the process is the end of the line
        process = context.Process(target=_serve, args=(theirs,))
        process.start()
    return ours, process


def _received(line: Connection) -> Any:
    try:
        return line.recv()
    except (EOFError, ConnectionError):
        return ProcessLostError("its process was killed (out of memory?); fewer --jobs take less")


def _end(processes: Sequence[BaseProcess]) -> None:
    """Wait for processes that were told to stop; one that does not is killed."""
    deadline = time.monotonic() + GRACE
    for process in processes:
        process.join(max(deadline - time.monotonic(), 0))
        process.kill()
        process.join()


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Let signals wait, here and in processes that are started meanwhile, until these know what to do with them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Interruption:
    """The first signal interrupts, once; another that is not part of it kills the processes that still stop."""

    def __init__(self, processes: Sequence[BaseProcess]) -> None:
        self.processes = processes
        self.stopping = False
        self.since: float | None = None

    def __call__(self, number: int, frame: Any) -> None:
        if self.since is None:
            self.since = time.monotonic()
            if not self.stopping:
                raise KeyboardInterrupt
        elif time.monotonic() - self.since > TOGETHER:
            for process in self.processes:
                process.kill()


@contextlib.contextmanager
def _one_interruption(processes: Sequence[BaseProcess]) -> Iterator[_Interruption]:
    """Within this, signals that would raise something here are an interruption of all processes."""
    interruption = _Interruption(processes)
    main = threading.current_thread() is threading.main_thread()  # no other is interrupted, nor may set this
    before = {number: handler for number in INTERRUPTIONS if callable(handler := signal.getsignal(number)) and main}
    for number in before:
        signal.signal(number, interruption)
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if interruption.since is not None:
            raise KeyboardInterrupt from None


# ------------------------------------------------------------------------------------------------ in such a process


class _Worker:
    """Does calls until it is told to stop or there are no more."""

    def __init__(self) -> None:
        self.busy = False
        self.told = False

    def stop(self, number: int, frame: Any) -> None:
        """The handler of signals; only the first interrupts, so that what a call closes then is closed in peace."""
        first, self.told = not self.told, True
        if first and self.busy:
            raise KeyboardInterrupt

    def do(self, call: Callable[[], Any]) -> Any:
        self.busy = True
        try:
            if self.told:
                raise KeyboardInterrupt
            return call()
        finally:
            self.busy = False

    def serve(self, line: Connection) -> None:
        while True:
            call, answer = line.recv(), None
            try:
                answer = self.do(call)
            except KeyboardInterrupt as interrupted:
                answer = interrupted
            except Exception as error:
                answer = _sendable(error)
            line.send(answer)


def _sendable(error: Exception) -> Exception:
    """The same or one that says the same, with a note where it came from: it is raised, if at all, elsewhere."""
    if isinstance(error, RuntimeError | MemoryError):  # torch has kinds of the first that tell of a lost or full GPU
        told: Exception = RuntimeError(str(error) or "out of memory")
    else:
        told = error if isinstance(error, GalafedError) else CallError(f"{type(error).__name__}: {error}")
    told.add_note(traceback.format_exc())
    return told


def _serve(line: Connection) -> None:
    """The program of a process."""
    worker = _Worker()
    for number in INTERRUPTIONS:
        if signal.getsignal(number) != signal.SIG_IGN:  # a shell has its jobs in the background ignore Ctrl-C
            signal.signal(number, worker.stop)
    threading.Thread(target=_end_with_parent, daemon=True).start()  # signals still wait: they are for the main thread
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)
    with contextlib.suppress(EOFError, ConnectionError):  # nobody is at the other end, or has gone
        worker.serve(line)


def _end_with_parent() -> None:
    """Stop as soon as the parent is gone, however it ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(1)
