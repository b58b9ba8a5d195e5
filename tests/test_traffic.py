"""Every byte is counted, and for the paper's network the counts are those of its communication table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import pytest
import torch

from galafed.algorithms.base import Algorithm, algorithms
from galafed.config import resolve
from galafed.engines.serial import Serial
from galafed.federation import Federation
from galafed.loops import Bench, Fitted, Images, Swept
from galafed.messages import Failure, Held, Job, Reply
from galafed.model import Model, Schema, State
from galafed.networks.digit_cnn import DigitCnn
from galafed.runs.assembly import assemble
from galafed.traffic import Traffic, Transfer
from galafed.work import Fit, States, Sweep

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


def hollow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everyone keeps to the protocol but no number is computed: shapes alone decide over bytes."""

    def fit(work: Fit, bench: Bench, data: Images, states: States, **_: Any) -> Fitted:
        return Fitted(dict(states), {}, (0.5,))

    def sweep(work: Sweep, bench: Bench, data: Images, states: States, **_: Any) -> Swept:
        return Swept({part: zeros(schema) for part, schema in work.schema(bench.network).items()}, {})

    def mean(states: Mapping[str, State], weights: Mapping[str, float], **_: Any) -> State:
        return dict(states[min(states)])

    monkeypatch.setattr("galafed.model.weighted_mean", mean)
    monkeypatch.setattr("galafed.tasks.weighted_mean", mean)
    monkeypatch.setattr("galafed.federation.check_shapes", lambda *_, **__: None)
    monkeypatch.setattr("galafed.federation.impossible", lambda states: {})
    monkeypatch.setattr("galafed.client.fit", fit)
    monkeypatch.setattr("galafed.client.sweep", sweep)


class Counting(Serial):
    """Counts what passes on its own account: client, direction, task and bytes."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.counted: list[tuple[str, str, str, int]] = []

    def dispatch(
        self, jobs: Sequence[Job], timeout: float | None, progress: Callable[[int], None]
    ) -> list[Reply | Failure]:
        for job in jobs:
            sent = [part for part in job.payload.values() if not isinstance(part, Held)]
            tensors = sum(value.nbytes for state in sent for value in state.values())
            text = len(json.dumps(dict(job.task.arguments)))
            self.counted.append((job.client, "down", job.task.name, tensors + text))
        answers = super().dispatch(jobs, timeout, progress)
        for job, answer in zip(jobs, answers, strict=True):
            if isinstance(answer, Reply):
                back = sum(value.nbytes for state in answer.parts.values() for value in state.values())
                self.counted.append((job.client, "up", job.task.name, back))
        return answers


def start(name: str, count: int, **settings: Any) -> tuple[Algorithm[Any], Federation, Counting, Model]:
    """An algorithm with the paper's network and `count` sources, ready for its first round."""
    network = DigitCnn(classes=10, image_size=32)
    sources = [f"s{n:02}" for n in range(count)]
    nothing = Images(torch.zeros(0, 32, 32, 3, dtype=torch.uint8))
    bench = Bench(network, torch.device("cpu"))
    engine = Counting(bench=bench, data=dict.fromkeys((*sources, TARGET), nothing), seed=0)
    fed = Federation(engine, network, sources=sources, target=TARGET, seed=0)
    config = resolve({"benchmark": "toy", "algorithm": name, name: settings})
    algorithm = algorithms.get(name)(config.settings, config.training, rounds=500)
    model = Model({part: zeros(network.schema(part)) for part in ("extractor", "predictor")})
    return algorithm, fed, engine, algorithm.start(fed, model)


def play(name: str, count: int, *, rounds: int = 1, **settings: Any) -> tuple[Federation, Counting]:
    """Rounds of it; the ledger and the engine's own count are those of the last."""
    algorithm, fed, engine, model = start(name, count, **settings)
    for number in range(rounds):
        engine.counted.clear()
        fed.begin_round(number)
        model = algorithm.round(fed, model).model
    return fed, engine


def totals(fed: Federation) -> dict[str, int]:
    return fed.traffic.totals(sources=fed.sources, target=fed.target)


@pytest.mark.parametrize(("count", "server"), [(5, 1.24), (10, 2.27)])
def test_gala_moves_what_the_papers_table_says(count: int, server: float, monkeypatch: pytest.MonkeyPatch) -> None:
    hollow(monkeypatch)
    fed, _ = play("gala", count)
    found, apart = totals(fed), fed.traffic.uncounted_in_paper(target=TARGET)
    assert (found["target"] - apart) / MB == pytest.approx(205.60, rel=1e-3)
    assert found["source"] / MB == pytest.approx(206.77, rel=1e-3)
    assert round(found["source"] / MB, 1) == 206.8
    assert (found["server"] - apart) / MB == pytest.approx(count * 206.77 + 205.60, rel=1e-3)
    assert round(found["server"] / 1e9, 2) == server
    assert found["server"] == sum(t.size for t in fed.traffic.transfers)


@pytest.mark.parametrize("rounds", [1, 2])
def test_gala_moves_each_part_to_and_from_the_target_as_often_as_it_says(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hollow(monkeypatch)
    fed, _ = play("gala", 2, rounds=rounds)
    apart = fed.traffic.uncounted_in_paper(target=TARGET)
    assert apart == CENTROIDS + 2 * HEAD_STATISTICS
    assert 0 < totals(fed)["target"] - apart - (2 * G + 2 * F) < ARGUMENTS  # G', two heads, G''


@pytest.mark.parametrize("rounds", [1, 2])
def test_gala_moves_each_part_to_and_from_a_source_as_often_as_it_says(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hollow(monkeypatch)
    fed, _ = play("gala", 2, rounds=rounds)
    assert 0 < totals(fed)["source"] - (3 * G + 2 * F + CENTROIDS) < ARGUMENTS  # h_t, G_n, G', F_n, r_n


def test_fact_moves_what_the_papers_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    hollow(monkeypatch)
    fed, engine = play("fact", 5)
    found, apart = totals(fed), fed.traffic.uncounted_in_paper(target=TARGET)
    assert (found["server"] - apart) / MB == pytest.approx(618.5, rel=1e-3)
    assert found["server"] / MB == pytest.approx(618.5, abs=0.5)
    assert (found["target"] - apart) / MB == pytest.approx(205.60, rel=1e-3)
    assert 0 < found["source"] - (3 * G + 2 * F) < ARGUMENTS
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
def test_every_payload_is_counted(name: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    hollow(monkeypatch)
    fed, engine = play(name, 3, **settings)
    found = sorted((t.client, t.direction, t.task, t.size) for t in fed.traffic.transfers)
    assert found == sorted(engine.counted)
    assert totals(fed)["server"] == sum(size for *_, size in engine.counted)


def test_outputs_average_sends_every_head_to_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    hollow(monkeypatch)
    fed, _ = play("gala", 5, group_predictors="outputs")
    apart = fed.traffic.uncounted_in_paper(target=TARGET)
    assert 0 < totals(fed)["target"] - apart - (2 * G + 5 * F) < ARGUMENTS  # 511 MB
    assert apart == CENTROIDS + 5 * HEAD_STATISTICS


def test_target_receives_the_model_once_before_the_first_round(monkeypatch: pytest.MonkeyPatch) -> None:
    hollow(monkeypatch)
    _, fed, engine, _ = start("gala", 2)
    assert 0 < totals(fed)["target"] - (G + F) < ARGUMENTS
    assert [client for client, direction, *_ in engine.counted if direction == "down"] == [TARGET]


@pytest.mark.parametrize("name", algorithms.names())
def test_clients_that_really_train_move_as_many_bytes_as_the_ledger_says(name: str) -> None:
    parts = assemble(resolve({"benchmark": "toy", "device": "cpu", "algorithm": name}))
    assert isinstance(parts.engine, Serial)
    data = {client: c.data for client, c in parts.engine.clients.items()}
    engine = Counting(bench=Bench(parts.network, parts.device), data=data, seed=0)
    told = parts.federation
    fed = Federation(engine, parts.network, sources=told.sources, target=told.target, domains=told.domains, seed=0)
    model = parts.algorithm.start(fed, parts.network.initial(0))
    for number in range(2):
        engine.counted.clear()
        fed.begin_round(number)
        model = parts.algorithm.round(fed, model).model
        assert totals(fed)["server"] == sum(size for *_, size in engine.counted) > 0


def test_ledger_of_a_new_round_is_empty() -> None:
    traffic = Traffic()
    traffic.transfers.append(Transfer(0, "a", "down", "train", 5))
    traffic.clear()
    assert traffic.totals(sources=("a",), target=TARGET) == {"source": 0, "server": 0, "target": 0}


def test_totals_name_the_busiest_source() -> None:
    traffic = Traffic()
    sizes = {"a": (5, 7), "b": (11, 13), TARGET: (100, 1)}
    for client, (down, up) in sizes.items():
        traffic.transfers.append(Transfer(0, client, "down", "train", down))
        traffic.transfers.append(Transfer(0, client, "up", "train", up, summary=up - 1))
    assert traffic.totals(sources=("a", "b"), target=TARGET) == {"source": 24, "server": 137, "target": 101}
    assert traffic.uncounted_in_paper(target="b") == 12
