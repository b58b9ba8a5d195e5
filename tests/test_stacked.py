"""The engine `stacked`: all clients at once, equal to `serial`."""

from __future__ import annotations

import copy
import dataclasses
import gc
import os
import shutil
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from galafed.algorithms.base import algorithms
from galafed.batches import shuffled_batches
from galafed.config import Run, resolve
from galafed.engines.base import engines
from galafed.federation import Federation
from galafed.loops import Bench, Fitted, Images, fit
from galafed.messages import Failure, Job, Reply
from galafed.model import Model
from galafed.networks.base import networks
from galafed.networks.efficientnet_lite0 import InvertedBottleneck
from galafed.networks.layers import FixedBatchNorm2d
from galafed.networks.residual import Bottleneck
from galafed.networks.resnet50_fixed import ResNet50Fixed
from galafed.runs.assembly import pooled
from galafed.runs.garbage import put_off
from galafed.runs.runner import resume, start
from galafed.runs.seeding import seed_for, seeds_for
from galafed.stacking import fitting, graphs
from galafed.stacking.fitting import ALIKE, Member, Workspace
from galafed.stacking.graphs import Recorded
from galafed.stacking.lane import Lane
from galafed.stacking.plan import arrange, segments
from galafed.stacking.resident import Resident
from galafed.stacking.twins import TWINS, CannotStack, twin
from galafed.stacking.worker import Worker
from galafed.training import Training
from galafed.work import Batch, Finished, Fit, Sgd, Step, Sweep, Task
from test_algorithms import QUICK

SIZES = {"a": 40, "b": 23, "c": 40, "d": 17, "t": 33}
"""Clients end their epochs at different steps: with batches of 8, some with a short batch, one with a batch of one."""


def images(size: int, seed: int, side: int = 8, *, labelled: bool = True) -> Images:
    """Random images of a client."""
    draw = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (size, side, side, 3), dtype=torch.uint8, generator=draw)
    return Images(pixels, torch.randint(0, 3, (size,), generator=draw) if labelled else None)


def play(
    engine: str,
    algorithm: str = "gala",
    *,
    rounds: int = 3,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    network: str = "small_cnn",
    sizes: dict[str, int] | None = None,
    at_once: int = 0,
    threads: int = 1,
    settings: dict[str, Any] | None = None,
    **training: Any,
) -> tuple[Model, list[Any]]:
    """A few rounds of an algorithm on random images; returns the last model and every outcome."""
    sizes = sizes or SIZES
    chosen = networks.get(network)(classes=3, image_size=8)
    data = {name: images(size, number, labelled=name != "t") for number, (name, size) in enumerate(sizes.items())}
    method = algorithms.get(algorithm)
    recipe = Training(**({"lr": 0.05, "batch_size": 8} | training))
    program = method(method.Settings(**QUICK.get(algorithm, {}) | (settings or {})), recipe, rounds=rounds)
    config = Run(max_clients_at_once=at_once, threads=threads)
    sources = {name: domain for name, domain in data.items() if name != "t"}
    if program.pools_sources:
        data = {"pooled": pooled(sources.values(), data if program.kind == "central" else {}), "t": data["t"]}
    made = engines.get(engine)(bench=Bench(chosen, torch.device("cpu"), dtype), data=data, seed=seed, config=config)
    federation = Federation(
        made,
        chosen,
        sources=set(data) - {"t"},
        target="t",
        seed=seed,
        dtype=dtype,
        domains=tuple(sources) if program.pools_sources else (),
    )
    model = program.start(federation, chosen.initial(seed, dtype))
    outcomes = []
    for number in range(rounds):
        federation.begin_round(number)
        outcome = program.round(federation, model)
        model = outcome.model
        outcomes.append(outcome)
        assert not federation.failures
    federation.close()
    return model, outcomes


def distance(one: Model, other: Model) -> float:
    """The largest difference of any number of two models."""
    assert one.parts.keys() == other.parts.keys()
    return max(
        float((value.double() - other.parts[part][name].double()).abs().max())
        for part, state in one.parts.items()
        for name, value in state.items()
    )


METHODS = [name for name in algorithms.names() if name != "oracle"]


@cache
def serial_rounds(algorithm: str) -> tuple[Model, list[Any]]:
    """Two rounds to compare others with, played once a process."""
    return play("serial", algorithm, rounds=2)


@pytest.mark.parametrize("at_once", [0, 1, 5], ids="at_once={}".format)
@pytest.mark.parametrize("algorithm", METHODS)
def test_stacked_equals_serial(algorithm: str, at_once: int) -> None:
    serial, expected = serial_rounds(algorithm)
    stacked, outcomes = play("stacked", algorithm, rounds=2, at_once=at_once)
    assert distance(serial, stacked) < 1e-10
    for one, other in zip(expected, outcomes, strict=True):
        assert one.relevance == pytest.approx(other.relevance, abs=1e-12)
        for choice in ("groups", "pair"):
            assert one.notes.get(choice) == other.notes.get(choice)
        assert one.loss == pytest.approx(other.loss, abs=1e-10)


@pytest.mark.parametrize(
    "different",
    [
        {"mixup": 0.5},
        {"mixup": 0.5, "at_once": 1},
        {"epochs": 2},
        {"persistent_momentum": True},
        {"extractor_rate": 0.25},
        {"momentum": 0.0, "weight_decay": 0.0},
        {"batch_size": 64},
        {"settings": {"group_predictors": "outputs", "igd_dropout": False}},
        {"seed": 7, "sizes": {"a": 9, "b": 8, "t": 16}},
        {"sizes": {f"s{k:02d}": 10 + k % 3 for k in range(30)} | {"t": 12}, "rounds": 1},
    ],
    ids=str,
)
def test_stacked_equals_serial_with(different: dict[str, Any]) -> None:
    assert distance(play("serial", **different)[0], play("stacked", **{"at_once": 40} | different)[0]) < 1e-10


@pytest.mark.parametrize("momentum", [0.9, 0.0])
@pytest.mark.parametrize("algorithm", METHODS)
def test_kept_momentum_of_every_system(algorithm: str, momentum: float) -> None:
    """Layers that never move, and steps without momentum, have none to keep."""
    kept = {"persistent_momentum": True, "momentum": momentum}
    serial, stacked = (play(engine, algorithm, rounds=2, at_once=3, **kept)[0] for engine in ("serial", "stacked"))
    assert distance(serial, stacked) < 1e-10


def test_in_float32_within_1e_5() -> None:
    serial, stacked = (play(engine, dtype=torch.float32, at_once=3)[0] for engine in ("serial", "stacked"))
    assert 0 < distance(serial, stacked) < 1e-5


def test_chunks_make_no_difference_to_the_bit() -> None:
    assert play("stacked", at_once=1)[0].digest() == play("stacked", at_once=1)[0].digest()
    assert distance(play("stacked", at_once=1)[0], play("stacked", at_once=2)[0]) < 1e-10


@pytest.mark.parametrize("at_once", [0, 1])
def test_the_number_of_workers_makes_no_difference(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    models = []
    for cores in (1, 2, 3):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cores=cores: set(range(cores)))
        models.append(play("stacked", at_once=at_once, rounds=2)[0])
    assert max(distance(models[0], other) for other in models[1:]) < 1e-10


def test_a_client_that_is_asked_alone_may_use_every_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    seen: list[tuple[str, int]] = []
    work = Worker.work

    def watched(worker: Worker, jobs: Sequence[Job]) -> Any:
        seen.append((jobs[0].task.name, torch.get_num_threads()))
        return work(worker, jobs)

    monkeypatch.setattr(Worker, "work", watched)
    before = torch.get_num_threads()
    play("stacked", rounds=1)
    assert {threads for name, threads in seen if name == "align"} == {3}
    assert {threads for name, threads in seen if name == "train"} == {before}
    assert torch.get_num_threads() == before


# Work of every shape


def loss_of_classes(outputs: Mapping[str, torch.Tensor], batch: Batch) -> torch.Tensor:
    """Cross-entropy, written differently."""
    assert batch.labels is not None
    return torch.nn.functional.cross_entropy(outputs["logits"], batch.labels)


def entropy(outputs: Mapping[str, torch.Tensor], batch: Batch) -> torch.Tensor:
    """A loss that needs no label."""
    return torch.special.entr(outputs["logits"].softmax(dim=-1)).sum(dim=-1).mean()


def two_optimisers(**different: Any) -> Fit:
    """Two steps a batch with different losses, modules and rates."""
    paths = {"logits": ("extractor", "predictor")}
    settings: dict[str, Any] = {
        "steps": (
            Step(outputs=paths, loss=loss_of_classes, update=("extractor", "predictor")),
            Step(outputs=paths, loss=entropy, update=("extractor",)),
        ),
        "optimiser": Sgd(lr=0.05),
        "batch_size": 8,
        "labelled": True,
        "rates": {"extractor": 0.5},
        "finish": lambda states: Finished(sends=states),
        "schema": lambda network: {part: network.schema(part) for part in ("extractor", "predictor")},
    }
    return Fit(**settings | different)


def answers(engine: str, work: Fit, data: dict[str, Images], notices: list[str] | None = None) -> dict[str, Any]:
    """What clients answer to a fit that starts from the same model."""
    network = networks.get("small_cnn")(classes=3, image_size=8)
    bench = Bench(network, torch.device("cpu"), torch.float64)
    made = engines.get(engine)(bench=bench, data=data, seed=3, config=Run(max_clients_at_once=9, threads=1))
    made.notice = (notices if notices is not None else []).append
    model = network.initial(3, torch.float64)
    jobs = [Job(name, 0, Task("fit", {}, work), model.parts) for name in data]
    return {answer.client: answer for answer in made.dispatch(jobs, None, lambda done: None)}


def test_two_optimisers_a_batch() -> None:
    data = {name: images(size, size) for name, size in (("a", 20), ("b", 20), ("c", 13))}
    serial, stacked = (answers(engine, two_optimisers(), data) for engine in ("serial", "stacked"))
    for name in data:
        assert distance(Model(serial[name].parts), Model(stacked[name].parts)) < 1e-12
        assert serial[name].metrics == pytest.approx(stacked[name].metrics, rel=1e-12)


def test_a_client_that_cannot_is_refused_and_the_others_go_on() -> None:
    data = {"a": images(20, 1), "lone": images(1, 2), "unlabelled": images(20, 3, labelled=False), "z": images(20, 4)}
    serial, stacked = (answers(engine, two_optimisers(), data) for engine in ("serial", "stacked"))
    assert stacked["lone"] == serial["lone"]
    assert stacked["unlabelled"] == serial["unlabelled"]
    for name in ("a", "z"):
        assert distance(Model(serial[name].parts), Model(stacked[name].parts)) < 1e-12


def test_a_client_whose_loss_explodes_fails_alone() -> None:
    def explosive(outputs: Mapping[str, torch.Tensor], batch: Batch) -> torch.Tensor:
        assert batch.labels is not None
        return loss_of_classes(outputs, batch) / (batch.labels.amax() < 2)

    quiet = Images(images(20, 1).images, torch.zeros(20, dtype=torch.int64))
    steps = (Step(outputs={"logits": ("extractor", "predictor")}, loss=explosive, update=("predictor",)),)
    found = answers("stacked", two_optimisers(steps=steps), {"loud": images(20, 2), "quiet": quiet})
    assert isinstance(found["loud"], Failure)
    assert "not a finite number" in found["loud"].reason
    assert isinstance(found["quiet"], Reply)


def test_what_cannot_be_stacked_is_done_one_after_the_other_with_one_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    data = {name: images(20, size) for size, name in enumerate("abc")}
    monkeypatch.delitem(TWINS, nn.MaxPool2d)
    notices: list[str] = []
    serial, stacked = answers("serial", two_optimisers(), data), answers("stacked", two_optimisers(), data, notices)
    assert all(distance(Model(serial[name].parts), Model(stacked[name].parts)) == 0 for name in data)
    assert notices == ["fit: MaxPool2d cannot be stacked, so clients train one after the other"]


@pytest.mark.parametrize("algorithm", METHODS)
def test_the_training_of_every_system_is_stacked(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = []
    carry_out = Worker._alone
    monkeypatch.setattr(Worker, "_alone", lambda self, begun: alone.append(begun.job.task) or carry_out(self, begun))
    play("stacked", algorithm, rounds=2, at_once=2)
    assert not [task.name for task in alone if isinstance(task.work, Fit)]


def test_work_on_several_domains_that_mixes_remembers_and_knows_single_images() -> None:
    """Two clients with a domain beside their own images; its batches are fewer, and so start over."""

    def loss(outputs: Mapping[str, torch.Tensor], batch: Batch) -> torch.Tensor:
        assert batch.streams["own"].labels is None
        weights = batch.streams["own"].rows["weight"]
        assert batch.mixed is not None
        assert batch.mixed.labels is not None
        mixed = torch.nn.functional.cross_entropy(outputs["logits"], batch.mixed.labels) * batch.mixed.share
        far = (outputs["theirs"] - outputs["kept"].mean(dim=0)).square().mean(dim=-1)
        return loss_of_classes(outputs, batch) + mixed + (weights * far).mean()

    def remember(outputs: Mapping[str, torch.Tensor], batch: Batch) -> dict[str, Any]:
        return {"centroids:own": {"means": outputs["kept"] + outputs["theirs"].mean(dim=0)}}

    paths = {"logits": ("extractor", "predictor"), "theirs": ("@own", "extractor", "predictor")}
    step = Step(
        outputs=paths | {"kept": ("@own", "centroids:own")},
        loss=loss,
        update=("extractor", "predictor"),
        remember=remember,
    )
    work = two_optimisers(
        steps=(step, *two_optimisers().steps[1:]), mixup=0.5, epochs=2, rows=("weight",),
        schema=lambda network: {part: network.schema(part) for part in ("extractor", "predictor", "centroids:own")},
    )  # fmt: skip
    network = networks.get("small_cnn")(classes=3, image_size=8)
    model = dict(network.initial(3, torch.float64).parts)
    model["centroids:own"] = {"means": torch.zeros(3, 3, dtype=torch.float64)}
    found = {}
    for engine in ("serial", "stacked"):
        data = {
            name: dataclasses.replace(images(size, size), streams={"own": images(11, size + 1, labelled=False)})
            for name, size in (("a", 40), ("b", 21))
        }
        bench = Bench(network, torch.device("cpu"), torch.float64)
        made = engines.get(engine)(bench=bench, data=data, seed=3, config=Run(max_clients_at_once=9, threads=1))
        made.notice = lambda text: pytest.fail(text)
        sweep = Sweep(
            outputs={"theirs": ("@own", "extractor", "predictor")},
            measure=lambda outputs, batch: {"weight": outputs["theirs"][:, 0].exp()},
            rows=("weight",),
            finish=lambda sums, dtype: {},
            schema=lambda network: {},
        )
        for task in (Task("weigh", {}, sweep), Task("fit", {}, work)):
            replies = made.dispatch([Job(name, 0, task, model) for name in data], None, lambda done: None)
            assert all(isinstance(reply, Reply) for reply in replies)
        found[engine] = {reply.client: reply for reply in replies}
    for name, reply in found["serial"].items():
        other = found["stacked"][name]
        assert distance(Model(reply.parts), Model(other.parts)) < 1e-12
        assert reply.metrics == pytest.approx(other.metrics, rel=1e-12)
        assert distance(Model(reply.parts), Model(model)) > 1e-3


def test_steps_that_are_never_taken_again_are_let_go() -> None:
    data = {"a": images(20, 1)}
    network = networks.get("small_cnn")(classes=3, image_size=8)
    resident = Resident(data, torch.device("cpu"))
    workspace = Workspace(Bench(network, torch.device("cpu"), torch.float64), resident, pytest.fail)
    member = Member("a", network.initial(3, torch.float64).parts, {}, (1,))
    first, second = two_optimisers().steps
    for _ in range(30):
        workspace.fit(two_optimisers(), [member])
        anew = dataclasses.replace(first, loss=partial(loss_of_classes))
        workspace.fit(two_optimisers(steps=(anew, second)), [member])
    (team,) = workspace._teams.values()
    lengths = 2  # whole batches, and the last one

    def usual() -> list[int]:
        lanes = [lane for alike in team._lanes.values() for lane in alike.values()]
        return [id(lane) for lane in lanes if lane._work.steps[0].loss is loss_of_classes]

    assert [len(alike) for alike in team._lanes.values()] == [ALIKE] * lengths
    before = usual()
    assert len(before) == lengths
    workspace.fit(two_optimisers(), [member])
    assert usual() == before


def test_what_is_let_go_is_freed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"a": images(20, 1)}
    network = networks.get("small_cnn")(classes=3, image_size=8)
    workspace = Workspace(
        Bench(network, torch.device("cpu"), torch.float64), Resident(data, torch.device("cpu")), pytest.fail
    )
    member = Member("a", network.initial(3, torch.float64).parts, {}, (1,))
    step, made = two_optimisers().steps[0], list[weakref.ref[Lane]]()
    monkeypatch.setattr(fitting, "Lane", lambda *a, **k: made.append(weakref.ref(lane := Lane(*a, **k))) or lane)
    gc.disable()
    try:
        for _ in range(10):
            workspace.fit(two_optimisers(steps=(dataclasses.replace(step, loss=partial(loss_of_classes)),)), [member])
        assert sum(lane() is not None for lane in made) == 2 * ALIKE  # whole batches, and the last one
        workspace.close()
        assert not any(lane() for lane in made)
    finally:
        gc.enable()


def test_a_run_that_ended_leaves_nothing_to_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[weakref.ref[Lane]]()
    monkeypatch.setattr(fitting, "Lane", lambda *a, **k: made.append(weakref.ref(lane := Lane(*a, **k))) or lane)
    with put_off():
        play("stacked", "gala")
        assert made
        assert not any(lane() for lane in made)


def test_no_garbage_is_collected_while_steps_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, **given: nullcontext())
    monkeypatch.setattr(graphs, "foreground", lambda device: None)
    monkeypatch.setattr(graphs, "shared_memory", lambda: None)
    seen = list[bool]()
    steps = Recorded(lambda: seen.append(gc.isenabled()), lambda: None, torch.device("cpu"), records=True, brief=False)
    steps._record(2)
    assert seen == [False, False]
    assert gc.isenabled()


@pytest.mark.parametrize(("brief", "steps", "on_the_side", "recorded"), [
    (False, 20, 3, [8, 1]),
    (True, 20, 1, [1]),
    (True, 4, 4, []),
    (False, 2, 2, []),
])  # fmt: skip
def test_what_may_never_be_asked_for_again_is_recorded_as_little_as_can_be(
    brief: bool, steps: int, on_the_side: int, recorded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, made = list[str](), list[int]()

    class Graph:
        def __init__(self, size: int) -> None:
            made.append(size)
            self.size = size

        def replay(self) -> None:
            taken.extend(["replayed"] * self.size)

    def on_side(self: Recorded) -> None:
        taken.append("side")
        self._taken += 1

    monkeypatch.setattr(Recorded, "_on_the_side", on_side)
    monkeypatch.setattr(Recorded, "_record", lambda self, size: Graph(size))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    steps_of = Recorded(lambda: None, lambda: None, torch.device("cpu"), records=True, brief=brief)
    told = steps_of.run(steps)
    assert (told > 0) is (not brief)  # nothing that later rounds save
    assert len(taken) == steps
    assert taken.count("side") == on_the_side
    assert sorted(made, reverse=True) == recorded
    taken.clear()
    steps_of.run(20)  # asked for again: recorded as any other, for good
    assert len(taken) == 20
    assert 8 in made


def test_streams_beside_a_clients_own_images_for_several_epochs() -> None:
    data = {"a": dataclasses.replace(images(16, 1), streams={"b": images(16, 2), "c": images(5, 3)})}
    network = networks.get("small_cnn")(classes=3, image_size=8)
    place = Bench(network, torch.device("cpu"), torch.float64)
    states = network.initial(3, torch.float64).parts
    outputs = {"logits": ("extractor", "predictor"), "b": ("@b", "extractor", "predictor"), "c": ("@c", "extractor")}

    def loss(outputs: Mapping[str, torch.Tensor], batch: Batch) -> torch.Tensor:
        entropy = torch.nn.functional.cross_entropy
        own, theirs = entropy(outputs["logits"], batch.labels), entropy(outputs["b"], batch.streams["b"].labels)
        return own + theirs + outputs["c"].square().mean()

    step = Step(outputs=outputs, loss=loss, update=("extractor", "predictor"))
    work = two_optimisers(steps=(step,), epochs=3)
    (found,) = Workspace(place, Resident(data, torch.device("cpu")), pytest.fail).fit(
        work, [Member("a", states, {}, (1,))]
    )
    expected = fit(work, place, data["a"], states, stream=(1,), momentum={})
    assert isinstance(found, Fitted)
    assert distance(Model(found.states), Model(expected.states)) < 1e-12


def test_a_layer_without_a_twin_is_named() -> None:
    with pytest.raises(CannotStack, match="LSTM"):
        twin(nn.Sequential(nn.LSTM(3, 3)), 2)


def test_a_forward_of_its_own_is_not_guessed_at() -> None:
    class Rolls(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.layer(x.roll(1, dims=0))
            return result

    with pytest.raises(CannotStack, match="Rolls"):
        twin(Rolls(), 2)

    class Turned(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x.flip(0))

    with pytest.raises(CannotStack, match="Turned"):
        twin(Turned(3, 3), 2)


def test_a_class_that_only_says_how_a_layer_is_made_is_that_layer() -> None:
    class Narrow(nn.Linear):
        def __init__(self) -> None:
            super().__init__(3, 2)

    class Block(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(OrderedDict(full=Narrow(), relu=nn.ReLU()))

    made = twin(Block(), 4)
    assert {name: value.shape for name, value in made.state_dict().items()} == {
        "full.weight": (4, 2, 3),
        "full.bias": (4, 2),
    }


@pytest.mark.parametrize("training", [True, False])
def test_twins_of_residual_and_inverted_blocks(training: bool) -> None:
    blocks = [
        nn.Sequential(Bottleneck(8, 4, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()).double(),
        nn.Sequential(Bottleneck(8, 4, 2, ResNet50Fixed.variant), nn.AdaptiveAvgPool2d(1), nn.Flatten()).double(),
        InvertedBottleneck(8, 8, kernel=3, stride=1, expansion=2, side=6).double(),
        InvertedBottleneck(8, 8, kernel=3, stride=1, expansion=2, side=6, norm=FixedBatchNorm2d).double(),
    ]
    for block in blocks:
        ones = [copy.deepcopy(block).train(training) for _ in range(3)]
        for one in ones:
            for parameter in one.parameters():
                nn.init.normal_(parameter, generator=torch.Generator().manual_seed(parameter.numel()))
        together = twin(copy.deepcopy(block), 3).double().train(training)
        stacked = {name: torch.stack([one.state_dict()[name] for one in ones]) for name in block.state_dict()}
        together.load_state_dict(stacked)
        x = torch.randn(3, 4, 8, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        found = together(x)
        for k, one in enumerate(ones):
            torch.testing.assert_close(found[k], one(x[k]), atol=1e-12, rtol=1e-12)
        for name, value in together.state_dict().items():
            torch.testing.assert_close(value, torch.stack([one.state_dict()[name] for one in ones]))


def test_an_answer_after_the_time_out_is_late() -> None:
    data = {"a": images(20, 1)}
    network = networks.get("small_cnn")(classes=3, image_size=8)
    bench = Bench(network, torch.device("cpu"), torch.float64)
    made = engines.get("stacked")(bench=bench, data=data, seed=3)
    job = Job("a", 0, Task("fit", {}, two_optimisers()), network.initial(3, torch.float64).parts)
    (answer,) = made.dispatch([job], 1e-9, lambda done: None)
    assert isinstance(answer, Failure)
    assert (answer.kind, answer.task) == ("late", "fit")


# Who steps with whom


@given(st.lists(st.integers(2, 60), min_size=1, max_size=12), st.integers(2, 20))
def test_every_client_sees_its_own_batches_in_order(sizes: list[int], batch_size: int) -> None:
    order = arrange(sizes, batch_size)
    assert sorted(order) == list(range(len(sizes)))
    arranged = [sizes[k] for k in order]
    seen: dict[int, list[tuple[int, int]]] = {k: [] for k in order}
    for segment in segments(arranged, batch_size):
        for place in range(segment.start, segment.stop):
            first = segment.first
            seen[order[place]] += [(number, segment.length) for number in range(first, first + segment.steps)]
    for k, size in enumerate(sizes):
        lengths = [len(batch) for batch in shuffled_batches(size, batch_size, 1, ("x",))]
        assert seen[k] == list(enumerate(lengths))


@pytest.mark.parametrize("names", [(0,), (0, "round", 3, "train", "svhn")])
def test_seeds_hashed_together_are_the_same(names: tuple[object, ...]) -> None:
    rest = [(number, 0, "predictor") for number in range(4)]
    assert seeds_for(names, rest) == [seed_for(*names, *last) for last in rest]


def test_a_run_on_the_stacked_engine_resumes_to_the_same_bits(tmp_path: Path) -> None:
    config = resolve({"benchmark": "toy", "engine": "stacked", "rounds": 3, "device": "cpu", "threads": 1})
    whole = start(config, tmp_path / "whole")
    half = tmp_path / "half"
    start(config, half)
    for name in ("done", "summary.json"):
        (half / name).unlink()
    for checkpoint in sorted((half / "checkpoints").iterdir())[-1:]:
        checkpoint.unlink() if checkpoint.is_file() else shutil.rmtree(checkpoint)
    assert resume(half).summary["digest"] == whole.summary["digest"]


def test_small_clients_with_one_model_share_passes_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five clients of together 153 images: 5 passes of the centroids one after the other, 1 together."""
    passes = []
    forward = Bench.forward
    monkeypatch.setattr(Bench, "forward", lambda *given: passes.append(len(given[3].images)) or forward(*given))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    play("stacked", rounds=1)
    assert 153 in passes
    passes.clear()
    play("serial", rounds=1)
    assert 153 not in passes
