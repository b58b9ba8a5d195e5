"""The only round loop: start or resume a run, and after every round write down what happened before going on."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import tomli_w
import torch

from galafed.algorithms.base import Outcome
from galafed.config import Run
from galafed.errors import CheckpointError, ConfigError
from galafed.participation import known_relevance
from galafed.runs import checkpoint as checkpoints
from galafed.runs.assembly import Assembly, assemble
from galafed.runs.checkpoint import Checkpoint
from galafed.runs.evaluation import Evaluation
from galafed.runs.files import claimed, explained, new_folder, remove_leftovers, write_atomically, write_durably
from galafed.runs.folders import CONFIG, DONE, LEDGER, LOCK, METRICS, SUMMARY, check_free, load_config
from galafed.runs.garbage import spared
from galafed.runs.phases import PhaseClock
from galafed.runs.profile import take_profile
from galafed.runs.records import summary_of
from galafed.runs.selection import selected
from galafed.runs.summary import summarise


class Observer:
    """Watches a run; this one sees nothing. What an observer shows has no effect on the run."""

    def started(
        self, config: Run, folder: Path, history: tuple[Mapping[str, Any], ...], notes: Mapping[str, str]
    ) -> None:
        """A run begins, or goes on after the rounds of `history`."""

    def phase(self, task: str, done: int, asked: int) -> None:
        """So many of the clients that were asked for a task have answered."""

    def round_done(self, line: Mapping[str, Any]) -> None:
        """A round is done and saved."""

    def notice(self, text: str) -> None:
        """Something the user should know."""

    def finished(self, summary: Mapping[str, Any]) -> None:
        """The run is done."""


@dataclass(frozen=True)
class Result:
    """A finished run: its folder and its summary."""

    folder: Path
    summary: Mapping[str, Any]

    @property
    def accuracy(self) -> float | None:
        """Test accuracy after the last round; None where the target has no test labels."""
        value: float | None = self.summary["accuracy"]["last"]
        return value


def start(config: Run, folder: Path, observer: Observer | None = None, *, overwrite: bool = False) -> Result:
    """Run a configuration in a folder; an unfinished run of the same configuration there is gone on with."""
    observer = observer or Observer()
    check_free(folder, config, overwrite=overwrite)
    if (folder / CONFIG).exists() and not overwrite:
        return resume(folder, observer)
    torch.set_num_threads(config.threads)
    assembly = assemble(config)
    with contextlib.closing(assembly.federation):
        model = assembly.network.initial(config.seed, assembly.dtype)
        model = assembly.algorithm.start(assembly.federation, model)
        sent = sum(transfer.size for transfer in assembly.federation.traffic.transfers)
        first = Checkpoint(rounds_done=0, config_hash=config.hash(), model=model, bytes_before=sent)
        with contextlib.ExitStack() as stack:
            if overwrite and (folder / CONFIG).exists():
                stack.enter_context(_locked(folder))  # not under the feet of another process
            # The folder appears with its first checkpoint in it; an old run goes when there is a new one in its place.
            temporary = stack.enter_context(new_folder(folder, replace=overwrite))
            write_durably(temporary / CONFIG, tomli_w.dumps(config.to_dict()).encode())
            checkpoints.save(temporary, first)
        with _locked(folder):
            return _rounds(config, folder, assembly, first, observer)


def resume(folder: Path, observer: Observer | None = None) -> Result:
    """Go on with a run from its newest valid checkpoint, or tell a finished one's summary."""
    observer = observer or Observer()
    config = load_config(folder)
    with _locked(folder):
        if (found := _finished(folder)) is not None:
            observer.finished(found)
            return Result(folder, found)
        newest, damaged = checkpoints.newest_valid(folder)
        for sentence in damaged:
            observer.notice(f"{sentence}; going on from round {newest.rounds_done}")
        if newest.config_hash != config.hash():
            raise CheckpointError(f"{folder / CONFIG} was changed since the run began: restore it, or start a new run")
        torch.set_num_threads(config.threads)
        assembly = assemble(config)
        with contextlib.closing(assembly.federation):
            assembly.engine.restore_clients(newest.clients)
            return _rounds(config, folder, assembly, newest, observer)


def _finished(folder: Path) -> dict[str, Any] | None:
    """The summary of a finished run; of one whose summary was lost or damaged, nothing: it is then written anew."""
    return summary_of(folder) if (folder / DONE).exists() else None


def _rounds(config: Run, folder: Path, assembly: Assembly, state: Checkpoint, observer: Observer) -> Result:
    """Rounds from `state.rounds_done` to the end, a checkpoint after each, then the summary."""
    federation = assembly.federation
    clock = PhaseClock(observer.phase)
    federation.listener = clock
    federation.books.keep_in(folder / LEDGER)
    assembly.engine.notice = observer.notice
    remove_leftovers(folder)
    _write_metrics(folder, state.history)
    observer.started(config, folder, state.history, assembly.notes)
    on_device = _to(state.model, assembly.device)
    state = Checkpoint(**{**vars(state), "model": on_device})
    with spared():
        for number in range(state.rounds_done, config.rounds):
            started = time.perf_counter()
            clock.start()
            federation.begin_round(number, known_relevance(state.history))
            outcome = assembly.algorithm.round(federation, state.model)
            model = outcome.model.loaded()
            other = outcome.tested.loaded() if outcome.tested else None
            due = (number + 1) % config.evaluate_every == 0 or number + 1 == config.rounds
            tested = other or model
            evaluation = assembly.evaluator(tested) if due else None
            line = _line(number, outcome, evaluation, assembly, time.perf_counter() - started)
            line["phases"] = clock.seconds()
            state = Checkpoint(
                rounds_done=number + 1,
                config_hash=state.config_hash,
                model=model,
                tested=other,
                clients=assembly.engine.client_states(),
                history=(*state.history, line),
                bytes_before=state.bytes_before,
            )
            if (number + 1) % config.checkpoint_every == 0 or number + 1 == config.rounds:
                checkpoints.save(folder, state)
            pick = selected(state.history, config.rounds, config.selection)
            pinned = [pick["round"]] if pick else []
            checkpoints.prune(folder, done=number + 1, keep=config.keep_checkpoints, pinned=pinned)
            _append_metrics(folder, line)
            federation.books.flush()
            observer.round_done(line)
        take_profile(folder, assembly, state, observer.notice)
    federation.books.flush()
    _write_metrics(folder, state.history)  # both are whole before the run is called done
    summary = summarise(config, state, device=str(assembly.device), notes=assembly.notes)
    write_atomically(folder / SUMMARY, (json.dumps(summary, indent=2) + "\n").encode())
    write_atomically(folder / DONE, f"{summary['digest']}\n".encode())
    observer.finished(summary)
    return Result(folder, summary)


def _line(
    number: int, outcome: Outcome, evaluation: Evaluation | None, assembly: Assembly, seconds: float
) -> dict[str, Any]:
    """One line of metrics.jsonl; rounds are counted from 1 for people."""
    federation = assembly.federation
    measured = asdict(evaluation) if evaluation else dict.fromkeys(field.name for field in fields(Evaluation))
    totals = federation.traffic.totals(sources=federation.sources, target=federation.target)
    return {
        "round": number + 1,
        "loss": outcome.loss,
        "discrepancy": outcome.discrepancy,
        **measured,
        "relevance": dict(outcome.relevance),
        "sites": federation.traffic.by_client(),
        "bytes": totals
        | {
            "not_in_paper": federation.traffic.uncounted_in_paper(target=federation.target),
            "evaluation": federation.traffic.evaluation,
        },
        "failures": [asdict(failure) for failure in federation.failures],
        "seconds": round(seconds, 4),
        **outcome.notes,
    }


def _write_metrics(folder: Path, history: tuple[Mapping[str, Any], ...]) -> None:
    """metrics.jsonl as the checkpoint knows it: a line a round, none of a round that was undone."""
    write_atomically(folder / METRICS, "".join(json.dumps(line) + "\n" for line in history).encode())


def _append_metrics(folder: Path, line: Mapping[str, Any]) -> None:
    with explained(folder / METRICS), (folder / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _to(model: Any, device: torch.device) -> Any:
    parts = {part: {k: v.to(device) for k, v in state.items()} for part, state in model.parts.items()}
    return type(model)(parts, tag=model.tag)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep a second process away from a run; the lock goes with the process, however it ends."""
    with contextlib.ExitStack() as stack:
        try:
            mine = stack.enter_context(claimed(folder / LOCK))
        except OSError:
            mine = True  # a file system without locks: nobody else can be told to stay away
        if not mine:
            raise ConfigError(f"{folder}: another process is working on this run; wait for it or stop it")
        yield
