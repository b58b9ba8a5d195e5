"""Every byte is counted, and for the paper's network the counts are those of its communication table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
import torch

from galafed.algorithms.base import algorithms
from galafed.config import resolve
from galafed.federation import Engine, Federation
from galafed.messages import Failure, Held, Job, Reply
from galafed.model import Model, Schema, State
from galafed.networks.base import Network
from galafed.networks.digit_cnn import DigitCnn
from galafed.runs.assembly import assemble
from galafed.traffic import Traffic, Transfer

MB = 1e6
TARGET = "t"
G = 210_560 * 4 + 2 * 8  # floats, and the counter of each BatchNorm layer
F = 25_489_894 * 4 + 2 * 8
CENTROIDS = 10 * 8192 * 4 + 10 * 4
HEAD_STATISTICS = 2 * (3072 + 100) * 4 + 2 * 8
ARGUMENTS = 2000
"""More than the tasks' arguments of a round take as text, per client."""


@cache
def zero(shape: tuple[int, ...], floating: bool) -> torch.Tensor:
    """One zero in memory, seen as a whole tensor."""
    return torch.zeros((), dtype=torch.float32 if floating else torch.int64).expand(shape)


def zeros(schema: Schema) -> State:
    return {name: zero(shape, floating) for name, (shape, floating) in schema.items()}


class Hollow(Engine):
    """Answers every job with zeros of the right shapes, and counts what passes on its own account."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.counted: list[tuple[str, str, str, int]] = []

    def dispatch(
        self, jobs: Sequence[Job], timeout: float | None, progress: Callable[[int], None]
    ) -> list[Reply | Failure]:
        answers: list[Reply | Failure] = []
        for job in jobs:
            sent = [part for part in job.payload.values() if not isinstance(part, Held)]
            tensors = sum(value.nbytes for state in sent for value in state.values())
            text = len(json.dumps(dict(job.task.arguments)))
            self.counted.append((job.client, "down", job.task.name, tensors + text))
            parts = {part: zeros(schema) for part, schema in job.task.work.schema(self.network).items()}
            holds = [
                f"{tag}/{part}"
                for argument in ("tag", "hold")
                if (tag := job.task.arguments.get(argument))
                for part in ("extractor", "predictor")
            ]
            back = sum(value.nbytes for state in parts.values() for value in state.values())
            self.counted.append((job.client, "up", job.task.name, back))
            answers.append(Reply(job.client, parts, {"loss": 0.5}, 0.0, holds=tuple(holds)))
        return answers


def one_round(name: str, count: int, **settings: Any) -> tuple[Federation, Hollow]:
    """The first round of an algorithm with the paper's network and `count` sources; nothing is trained."""
    network = DigitCnn(classes=10, image_size=32)
    engine = Hollow(network)
    fed = Federation(engine, network, sources=[f"s{n:02}" for n in range(count)], target=TARGET, seed=0)
    config = resolve({"benchmark": "toy", "algorithm": name, name: settings})
    algorithm = algorithms.get(name)(config.settings, config.training, rounds=500)
    model = Model({part: zeros(network.schema(part)) for part in ("extractor", "predictor")})
    model = algorithm.start(fed, model)
    engine.counted.clear()
    fed.begin_round(0)
    algorithm.round(fed, model)
    return fed, engine


def totals(fed: Federation) -> dict[str, int]:
    return fed.traffic.totals(sources=fed.sources, target=fed.target)


@pytest.mark.parametrize(("count", "server"), [(5, 1.24), (10, 2.27)])
def test_gala_moves_what_the_papers_table_says(count: int, server: float) -> None:
    fed, _ = one_round("gala", count)
    found, apart = totals(fed), fed.traffic.uncounted_in_paper(target=TARGET)
    assert found["source"] / MB == pytest.approx(206.77, rel=1e-3)
    assert round(found["source"] / MB, 1) == 206.8
    assert (found["target"] - apart) / MB == pytest.approx(205.60, rel=1e-3)
    assert (found["server"] - apart) / MB == pytest.approx(count * 206.77 + 205.60, rel=1e-3)
    assert round(found["server"] / 1e9, 2) == server
    assert found["server"] == sum(t.size for t in fed.traffic.transfers)


def test_gala_moves_each_part_as_often_as_the_algorithm_says() -> None:
    fed, _ = one_round("gala", 2)
    found = totals(fed)
    assert 0 < found["source"] - (3 * G + 2 * F + CENTROIDS) < ARGUMENTS  # h_t, G_n, G', F_n, r_n
    apart = fed.traffic.uncounted_in_paper(target=TARGET)
    assert apart == CENTROIDS + 2 * HEAD_STATISTICS
    assert 0 < found["target"] - apart - (2 * G + 2 * F) < ARGUMENTS  # G', two heads, G''


def test_fact_moves_what_the_papers_table_says() -> None:
    fed, engine = one_round("fact", 5)
    found, apart = totals(fed), fed.traffic.uncounted_in_paper(target=TARGET)
    assert (found["server"] - apart) / MB == pytest.approx(618.5, rel=1e-3)
    assert found["server"] / MB == pytest.approx(618.5, abs=0.5)
    assert (found["target"] - apart) / MB == pytest.approx(205.60, rel=1e-3)
    assert apart == 2 * HEAD_STATISTICS
    assert len({client for client, *_ in engine.counted}) == 3  # two sources and the target


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("gala", {}),
        ("gala", {"head_statistics": "source"}),
        ("gala", {"group_predictors": "outputs"}),
        ("fact", {}),
        ("source_only", {"statistics": "target"}),
    ],
)
def test_every_payload_is_counted(name: str, settings: dict[str, Any]) -> None:
    fed, engine = one_round(name, 3, **settings)
    found = sorted((t.client, t.direction, t.task, t.size) for t in fed.traffic.transfers)
    assert found == sorted(engine.counted)
    assert totals(fed)["server"] == sum(size for *_, size in engine.counted)


def test_outputs_average_sends_every_head_to_the_target() -> None:
    fed, _ = one_round("gala", 5, group_predictors="outputs")
    apart = fed.traffic.uncounted_in_paper(target=TARGET)
    assert 0 < totals(fed)["target"] - apart - (2 * G + 5 * F) < ARGUMENTS  # 511 MB
    assert apart == CENTROIDS + 5 * HEAD_STATISTICS


@pytest.mark.parametrize("name", algorithms.names())
def test_clients_that_really_train_move_as_many_bytes_as_the_ledger_says(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = assemble(resolve({"benchmark": "toy", "device": "cpu", "algorithm": name}))
    fed, counted = parts.federation, []
    dispatch = parts.engine.dispatch

    def listening(jobs: Sequence[Job], *rest: Any) -> list[Reply | Failure]:
        answers = dispatch(jobs, *rest)
        for job in jobs:
            counted.append(len(json.dumps(dict(job.task.arguments))))
            states = [part for part in job.payload.values() if not isinstance(part, Held)]
            counted.extend(value.nbytes for state in states for value in state.values())
        replies = [a for a in answers if isinstance(a, Reply)]
        counted.extend(v.nbytes for reply in replies for state in reply.parts.values() for v in state.values())
        return answers

    monkeypatch.setattr(parts.engine, "dispatch", listening)
    model = parts.algorithm.start(fed, parts.network.initial(0))
    for number in range(2):
        counted.clear()
        fed.begin_round(number)
        model = parts.algorithm.round(fed, model).model
        assert totals(fed)["server"] == sum(counted) > 0


def test_ledger_of_a_new_round_is_empty() -> None:
    fed, _ = one_round("source_only", 1)
    assert fed.traffic.transfers
    fed.begin_round(1)
    assert totals(fed) == {"source": 0, "server": 0, "target": 0}


def test_totals_name_the_busiest_source() -> None:
    traffic = Traffic()
    sizes = {"a": (5, 7), "b": (11, 13), TARGET: (100, 1)}
    for client, (down, up) in sizes.items():
        traffic.transfers.append(Transfer(0, client, "down", "train", down))
        traffic.transfers.append(Transfer(0, client, "up", "train", up, summary=up - 1))
    assert traffic.totals(sources=("a", "b"), target=TARGET) == {"source": 24, "server": 137, "target": 101}
    assert traffic.uncounted_in_paper(target="b") == 12


def test_what_the_target_receives_before_the_first_round_is_counted() -> None:
    network = DigitCnn(classes=10, image_size=32)
    fed = Federation(Hollow(network), network, sources=["s"], target=TARGET, seed=0)
    config = resolve({"benchmark": "toy", "algorithm": "gala"})
    gala = algorithms.get("gala")(config.settings, config.training, rounds=5)
    gala.start(fed, Model({part: zeros(network.schema(part)) for part in ("extractor", "predictor")}))
    assert 0 < totals(fed)["target"] - (G + F) < ARGUMENTS
