"""Seconds of a round: an algorithm on random images, with a clock at every phase."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from galafed.config import Run, resolve
from galafed.consensus_focus import class_totals
from galafed.loops import copy_of
from galafed.messages import Failure, Job, Reply
from galafed.model import Model
from galafed.runs.assembly import assemble

TESTED = 9000
"""Test images of the target, or as many as there are training images."""
CLASSES = 10


def timed_run(algorithm: str, sources: int, **values: Any) -> Run:
    """The run whose rounds are timed: random images of `images` a domain; other settings as for any run."""
    images, size = values.pop("images"), values.pop("size", 32)
    noise = {"domains": sources + 1, "images": images, "tested": min(TESTED, images), "size": size}
    # So many rounds that an engine thinks it worth its while to compile.
    return resolve(
        {"benchmark": "noise", "noise": noise, "algorithm": algorithm, "rounds": 100, "threads": 1, **values}
    )


class TimedRounds:
    """A federation that tells how long its rounds take, and each phase in them; `close` it in the end.

    Of the tasks named in `keep` it holds on to the last answers.
    """

    def __init__(self, config: Run, keep: Sequence[str] = ()) -> None:
        assembly = assemble(config)
        self.device, self.network, self.engine = assembly.device, assembly.network, assembly.engine
        self.phases: dict[str, list[float]] = defaultdict(list)
        self.jobs: dict[str, Job] = {}
        """The first job of each task, of the last time it was asked for."""
        self.asked: dict[str, int] = {}
        self.answers: dict[str, list[Reply | Failure]] = {}
        self._keep = frozenset(keep)
        self._federation, self._program, self._evaluator = assembly.federation, assembly.algorithm, assembly.evaluator
        self._watch()
        model = self._program.start(self._federation, self.network.initial(config.seed))
        parts = {part: {k: v.to(self.device) for k, v in state.items()} for part, state in model.parts.items()}
        self.model = Model(parts, tag=model.tag)
        self.accuracy: float | None = None

    def _watch(self) -> None:
        dispatch = self.engine.dispatch

        def timed(jobs: Sequence[Job], timeout: float | None, progress: Callable[[int], None]) -> list[Reply | Failure]:
            wait(self.device)
            started = time.perf_counter()
            answers = dispatch(jobs, timeout, progress)
            wait(self.device)
            name = jobs[0].task.name
            self.phases[name].append(time.perf_counter() - started)
            self.jobs[name], self.asked[name] = jobs[0], len(jobs)
            if name in self._keep:  # as they are now: an engine may use their memory again
                self.answers[name] = [_copied(answer) for answer in answers]
            return answers

        self.engine.dispatch = timed  # type: ignore[method-assign]

    def round(self, number: int) -> float:
        """Seconds of one whole round, with its evaluation."""
        wait(self.device)
        started = time.perf_counter()
        self._federation.begin_round(number)
        outcome = self._program.round(self._federation, self.model)
        self.model = outcome.model
        self.accuracy = self._evaluator(outcome.tested or outcome.model).accuracy
        wait(self.device)
        return time.perf_counter() - started

    def close(self) -> None:
        """Let go of the engine and its memory."""
        self._federation.close()


def _copied(answer: Reply | Failure) -> Reply | Failure:
    if isinstance(answer, Failure):
        return answer
    return replace(answer, parts={part: copy_of(state) for part, state in answer.parts.items()})


def wait(device: torch.device) -> None:
    """Until the device has done what it was asked."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def shortest(work: Callable[[], Any], device: torch.device, repeats: int = 3) -> tuple[float, Any]:
    """The shortest of several times, and the last result; the first call, which may build tables, is not counted."""
    work()
    best, result = float("inf"), None
    for _ in range(repeats):
        wait(device)
        started = time.perf_counter()
        result = work()
        wait(device)
        best = min(best, time.perf_counter() - started)
    return best, result


def drawn_votes(images: int, sources: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Confidences and votes [images, N] as trained sources might give them.

    Every source is right on an image with a probability of its own, and surer when it is right.
    """
    rng = torch.Generator().manual_seed(sources)
    skill = 0.55 + 0.4 * torch.rand(sources, generator=rng)
    ease = torch.rand(images, 1, generator=rng)
    right = torch.rand(images, sources, generator=rng) < skill * (0.5 + ease).clamp_max(1)
    truth = torch.randint(CLASSES, (images, 1), generator=rng)
    vote = torch.where(right, truth, torch.randint(CLASSES, (images, sources), generator=rng))
    doubt = torch.rand(images, sources, generator=rng) ** torch.where(right, 4.0, 1.5)
    return (1 - 0.8 * doubt).double().to(device), vote.to(device)


def disputed(confidence: torch.Tensor, vote: torch.Tensor, gate: float) -> float:
    """The share of images for which sure sources name different classes."""
    sure = confidence * (confidence > gate)
    return float(((class_totals(sure, vote, CLASSES) > 0).sum(dim=1) > 1).double().mean())


def shown(phases: Mapping[str, float]) -> str:
    """Phases in one line."""
    return ", ".join(f"{name} {value:.3f}" for name, value in phases.items())
