"""The two loops against plain PyTorch, and the promises each task makes about what moves and what does not."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from galafed.client import Client
from galafed.loops import Bench, Fitted, Images, WorkError, fit, forward, set_modes, shuffled_batches, sweep
from galafed.messages import Failure, Held, Job, Reply
from galafed.model import State, digest, statistics
from galafed.networks.base import Network
from galafed.networks.layers import Dropout
from galafed.relevance import centroids_from, soft_sums
from galafed.runs.seeding import generator
from galafed.tasks import align, centroids, hold, score, train, tune
from galafed.work import Batch, Finished, Fit, Outputs, Sgd, Step, Sweep, Task

SGD: dict[str, Any] = {
    "lr": 0.05,
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "persistent": False,
    "extractor_rate": 1.0,
    "batch_size": 8,
    "epochs": 1,
}
STREAM = (3, "round", 0, "train", "a")


class Tiny(Network):
    """A network of the usual make, small enough to follow by hand."""

    name: ClassVar[str] = "tiny"
    feature_size = 2 * 4 * 4
    p: ClassVar[float] = 0.0

    def extractor(self) -> nn.Module:
        return nn.Sequential(
            OrderedDict(conv=nn.Conv2d(3, 2, 3, padding=1), norm=nn.BatchNorm2d(2), relu=nn.ReLU(), flat=nn.Flatten())
        )

    def predictor(self) -> nn.Module:
        return nn.Sequential(
            OrderedDict(
                drop=Dropout(self.p, layer=1),
                full1=nn.Linear(self.feature_size, 6),
                norm=nn.BatchNorm1d(6),
                relu=nn.ReLU(),
                full2=nn.Linear(6, self.classes),
            )
        )


class Dropping(Tiny):
    """The same with dropout."""

    p = 0.5


def bench_of(network: type[Tiny] = Tiny) -> Bench:
    return Bench(network(classes=3, image_size=4), torch.device("cpu"))


def images(count: int = 20, *, labelled: bool = True, seed: int = 0) -> Images:
    rng = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 4, 4, 3), generator=rng, dtype=torch.uint8)
    return Images(pixels, torch.arange(count) % 3 if labelled else None)


def initial(bench: Bench, *parts: str) -> dict[str, State]:
    """States for parts; every head starts from other numbers."""
    model = bench.network.initial(1)
    found: dict[str, State] = {}
    for number, part in enumerate(parts or ("extractor", "predictor")):
        found[part] = model.extractor if part == "extractor" else bench.network.initial(10 + number).predictor
    return found


def run(task: Task, bench: Bench, data: Images, states: dict[str, State], **momentum: State) -> Fitted:
    assert isinstance(task.work, Fit)
    return fit(task.work, bench, data, states, stream=STREAM, momentum=momentum)


def parameters(state: State) -> State:
    return {name: value for name, value in state.items() if name not in statistics(state)}


def same(one: State, two: State) -> bool:
    return digest({"p": one}) == digest({"p": two})


def aligning(*, dropout: bool = True, groups: list[dict[str, float]] | None = None, **changes: Any) -> Task:
    return align(groups=groups or [{"1": 1.0}, {"2": 1.0}], scale=1.0, dropout=dropout, **SGD | changes)


# Against plain PyTorch


def plain_training(
    bench: Bench, data: Images, states: dict[str, State], epochs: int, *, runs: int = 1
) -> tuple[dict[str, State], float]:
    """The textbook loop: one module, one optimiser; the only thing taken from the library is the permutation."""
    extractor, predictor = bench.network.extractor(), bench.network.predictor()
    extractor.load_state_dict(states["extractor"])
    predictor.load_state_dict(states["predictor"])
    model = nn.Sequential(extractor, predictor).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    assert data.labels is not None
    for _ in range(runs):
        losses = []
        for epoch in range(epochs):
            order = torch.randperm(len(data), generator=generator(*STREAM, "shuffle", epoch))
            for index in order.split(8):
                if len(index) == 1:
                    continue
                x = (data.images[index].permute(0, 3, 1, 2).float() / 127.5) - 1
                loss = nn.functional.cross_entropy(model(x), data.labels[index])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                losses.append(loss.item())
    final = {"extractor": dict(extractor.state_dict()), "predictor": dict(predictor.state_dict())}
    return final, sum(losses) / len(losses)


@pytest.mark.parametrize("count", [16, 17, 20])
@pytest.mark.parametrize("epochs", [1, 3])
def test_fit_equals_a_plain_training_loop_to_the_bit(count: int, epochs: int) -> None:
    bench, data = bench_of(), images(count)
    states = initial(bench)
    fitted = run(train(**SGD | {"epochs": epochs}), bench, data, states)
    expected, loss = plain_training(bench, data, states, epochs)
    assert digest(fitted.states) == digest(expected)
    assert fitted.losses == (pytest.approx(loss, rel=1e-6),)


def test_momentum_given_back_continues_where_it_stopped() -> None:
    bench, data = bench_of(), images()
    states = initial(bench)
    task = train(**SGD)
    first = run(task, bench, data, states)
    second = run(task, bench, data, first.states, **first.momentum)
    expected, _ = plain_training(bench, data, states, 1, runs=2)
    assert digest(second.states) == digest(expected)
    assert digest(run(task, bench, data, first.states).states) != digest(expected)


def test_sweep_equals_one_pass_over_everything_in_eval_mode() -> None:
    bench, data = bench_of(Dropping), images(30)
    states = initial(bench)
    work = centroids().work
    assert isinstance(work, Sweep)
    modules = bench.modules(states)
    set_modes(modules, dict.fromkeys(modules, "eval"))
    with torch.no_grad():
        features = modules["extractor"]((data.images.permute(0, 3, 1, 2).float() / 127.5) - 1)
        expected = centroids_from(soft_sums(features, modules["predictor"](features)), features.dtype)
    before = digest({n: dict(m.state_dict()) for n, m in modules.items()})
    for size in (1, 7, 30, 512):
        found = sweep(Sweep(**vars(work) | {"batch_size": size}), bench, data, states).parts["centroids"]
        torch.testing.assert_close(found["means"], expected["means"])
        torch.testing.assert_close(found["share"], expected["share"])
    assert digest({n: dict(m.state_dict()) for n, m in modules.items()}) == before


def test_sweep_sums_in_float64() -> None:
    work = Sweep(
        outputs={"features": ("extractor",)},
        measure=lambda outputs, batch: {"n": torch.tensor(2.0**24 if len(batch.images) == 4 else 1.0)},
        finish=lambda sums, dtype: {"sums": dict(sums)},
        schema=lambda network: {},
        batch_size=4,
    )
    bench = bench_of()
    total = sweep(work, bench, images(6), initial(bench, "extractor")).parts["sums"]["n"]
    assert total.item() == 2**24 + 1


# What moves


def test_training_moves_both_parts() -> None:
    bench = bench_of()
    states = initial(bench)
    fitted = run(train(**SGD), bench, images(), states)
    for part in ("extractor", "predictor"):
        assert not same(parameters(fitted.states[part]), parameters(states[part]))
        assert not same(statistics(fitted.states[part]), statistics(states[part]))


def test_extractor_rate_scales_the_step_of_the_extractor_alone() -> None:
    bench, data, one_batch = bench_of(), images(), SGD | {"momentum": 0.0, "batch_size": 20}
    states = initial(bench)
    slow, usual = (
        run(train(**one_batch | {"extractor_rate": rate}), bench, data, states).states for rate in (0.25, 1.0)
    )
    for name, start in parameters(states["extractor"]).items():
        quarter = start.lerp(usual["extractor"][name], 0.25)
        torch.testing.assert_close(slow["extractor"][name], quarter, rtol=1e-6, atol=1e-7)
    assert not same(slow["extractor"], usual["extractor"])
    assert same(slow["predictor"], usual["predictor"])


def test_rates_of_single_modules_win_over_that_of_extractors() -> None:
    work = train(**SGD | {"extractor_rate": 0.25}).work
    assert isinstance(work, Fit)
    extractors = ("extractor", "extractor:svhn", "norms:extractor:svhn")
    others = ("predictor", "predictor:1", "norms:predictor:svhn", "discriminator:x")
    assert [work.rate(module) for module in extractors] == [0.25] * 3
    assert [work.rate(module) for module in others] == [1.0] * 4
    special = Fit(**vars(work) | {"rates": {"extractor": 0.5, "discriminator:x": 0.1}})
    assert [special.rate(module) for module in extractors] == [0.5, 0.25, 0.25]
    assert [special.rate(module) for module in others] == [1.0, 1.0, 1.0, 0.1]


def test_fit_leaves_the_states_it_was_given_alone() -> None:
    bench = bench_of()
    states = initial(bench)
    before = digest(states)
    fitted = run(train(**SGD), bench, images(), states)
    run(train(**SGD), bench, images(seed=5), states)  # reuses the same modules
    assert digest(states) == before
    assert digest(fitted.states) == digest(run(train(**SGD), bench, images(), states).states)


@pytest.mark.parametrize("network", [Tiny, Dropping])
def test_fine_tuning_leaves_the_extractors_parameters_bit_identical(network: type[Tiny]) -> None:
    bench = bench_of(network)
    states = initial(bench)
    fitted = run(tune(**SGD | {"epochs": 3}), bench, images(), states)
    assert same(parameters(fitted.states["extractor"]), parameters(states["extractor"]))
    assert not same(parameters(fitted.states["predictor"]), parameters(states["predictor"]))
    assert set(fitted.momentum) == {"predictor"}


def test_module_that_does_not_move_gets_no_gradient() -> None:
    bench, flows = bench_of(), []

    def loss(outputs: Outputs, batch: Batch) -> torch.Tensor:
        flows.append(outputs["features"].requires_grad)
        return outputs["logits"].square().mean()

    for update in (("predictor",), ("extractor",)):
        paths = {"features": ("extractor",), "logits": ("extractor", "predictor")}
        work = Fit(
            steps=(Step(outputs=paths, loss=loss, update=update),),
            optimiser=Sgd(lr=0.1),
            batch_size=20,
            labelled=False,
            finish=lambda states: Finished(sends=states),
            schema=lambda network: {},
        )
        fit(work, bench, images(), initial(bench), stream=STREAM, momentum={})
    assert flows == [False, True]


def test_fine_tuning_normalises_with_the_sources_own_batch_statistics() -> None:
    bench, data = bench_of(), images()
    states = initial(bench)
    shifted = dict(states["extractor"])
    shifted["norm.running_mean"] = shifted["norm.running_mean"] + 5  # unused, as batch statistics are used
    one = run(tune(**SGD), bench, data, states).states["predictor"]
    two = run(tune(**SGD), bench, data, states | {"extractor": shifted}).states["predictor"]
    assert same(one, two)


def test_fine_tuning_returns_the_predictor_alone() -> None:
    bench = bench_of()
    work = tune(**SGD).work
    assert isinstance(work, Fit)
    finished = work.finish(initial(bench))
    assert set(finished.sends) == {"predictor"}
    assert not finished.stays
    assert not finished.holds


@pytest.mark.parametrize("dropout", [True, False])
def test_alignment_leaves_the_heads_parameters_bit_identical_and_moves_the_extractor(dropout: bool) -> None:
    bench = bench_of(Dropping)
    states = initial(bench, "extractor", "predictor:1", "predictor:2")
    fitted = run(aligning(dropout=dropout), bench, images(labelled=False), states)
    for head in ("predictor:1", "predictor:2"):
        assert same(parameters(fitted.states[head]), parameters(states[head]))
        assert not same(statistics(fitted.states[head]), statistics(states[head]))
    assert not same(parameters(fitted.states["extractor"]), parameters(states["extractor"]))
    assert set(fitted.momentum) == {"extractor"}


def test_alignment_lowers_the_disagreement() -> None:
    bench, data = bench_of(), images(40, labelled=False)
    states = initial(bench, "extractor", "predictor:1", "predictor:2")
    first = run(aligning(epochs=1), bench, data, states).losses[0]
    many = run(aligning(epochs=30), bench, data, states)
    last = run(aligning(epochs=1), bench, data, many.states).losses[0]
    assert last < 0.9 * first


def test_alignment_of_equal_heads_has_no_loss_without_dropout_and_some_with_it() -> None:
    bench, data = bench_of(Dropping), images(labelled=False)
    states = initial(bench, "extractor", "predictor:1")
    states["predictor:2"] = states["predictor:1"]
    assert run(aligning(dropout=False), bench, data, states).losses == (0.0,)
    assert run(aligning(dropout=True), bench, data, states).losses[0] > 0.01  # a mask for each head


def test_alignment_scale_multiplies_the_loss() -> None:
    bench, data = bench_of(), images(labelled=False)
    states = initial(bench, "extractor", "predictor:1", "predictor:2")
    plain, scaled = (
        run(align(groups=[{"1": 1.0}, {"2": 1.0}], scale=s, dropout=True, **SGD | {"lr": 0.0}), bench, data, states)
        for s in (1.0, 0.25)
    )
    assert scaled.losses[0] == pytest.approx(plain.losses[0] / 4)


def test_alignment_uses_its_mode_in_every_module() -> None:
    work = aligning(dropout=False).work
    assert isinstance(work, Fit)
    assert work.modes == dict.fromkeys(("extractor", "predictor:1", "predictor:2"), "no_dropout")


def test_empty_update_moves_statistics_alone() -> None:
    bench = bench_of()
    states = initial(bench, "extractor", "predictor:1")
    fitted = run(aligning(groups=[{"1": 1.0}]), bench, images(labelled=False), states)
    for part, state in states.items():
        assert same(parameters(fitted.states[part]), parameters(state))
        assert not same(statistics(fitted.states[part]), statistics(state))
    assert fitted.losses == (0.0,)
    assert fitted.momentum == {}


def test_statistics_follow_the_data() -> None:
    """Momentum 0.1, one batch: 0.9 of the old and 0.1 of the batch's mean and unbiased variance."""
    bench, data = bench_of(), images(8, labelled=False)
    states = initial(bench, "extractor", "predictor:1")
    fitted = run(aligning(groups=[{"1": 1.0}]), bench, data, states)
    conv = nn.functional.conv2d(
        bench.network.prepare(data.images, torch.float32),
        states["extractor"]["conv.weight"],
        states["extractor"]["conv.bias"],
        padding=1,
    )
    found = fitted.states["extractor"]
    torch.testing.assert_close(found["norm.running_mean"], 0.1 * conv.mean(dim=(0, 2, 3)))
    torch.testing.assert_close(found["norm.running_var"], 0.9 + 0.1 * conv.var(dim=(0, 2, 3)))
    assert found["norm.num_batches_tracked"].item() == 1


# Batches


def test_batches_of_an_epoch_cover_everything_once() -> None:
    batches = list(shuffled_batches(20, 8, 1, STREAM))
    assert [len(b) for b in batches] == [8, 8, 4]
    assert sorted(torch.cat(batches).tolist()) == list(range(20))


def test_last_batch_of_one_image_is_left_out() -> None:
    assert [len(b) for b in shuffled_batches(17, 8, 1, STREAM)] == [8, 8]
    assert [len(b) for b in shuffled_batches(18, 8, 1, STREAM)] == [8, 8, 2]


def test_epochs_and_streams_are_shuffled_differently() -> None:
    first, second = (torch.cat(list(shuffled_batches(50, 50, 2, STREAM))[k : k + 1]) for k in (0, 1))
    other = torch.cat(list(shuffled_batches(50, 50, 1, (*STREAM[:-1], "b"))))
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(first, torch.cat(list(shuffled_batches(50, 50, 1, STREAM))))


# Forward


class Counting(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.calls, self.factor = 0, factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.factor


def test_forward_computes_a_shared_beginning_once() -> None:
    modules = {"g": Counting(2), "a": Counting(3), "b": Counting(5)}
    paths = {"one": ("g", "a"), "two": ("g", "b"), "features": ("g",), "again": ("g", "a"), "long": ("g", "a", "b")}
    found = forward(modules, paths, Batch(torch.ones(1)))
    assert {name: value.item() for name, value in found.items()} == {
        "one": 6,
        "two": 10,
        "features": 2,
        "again": 6,
        "long": 30,
    }
    assert {name: module.calls for name, module in modules.items()} == {"g": 1, "a": 1, "b": 2}


def test_modes_decide_over_batch_statistics_and_dropout() -> None:
    bench = bench_of(Dropping)
    module = bench.network.predictor()
    for mode, expected in (("train", (True, True)), ("no_dropout", (True, False)), ("eval", (False, False))):
        set_modes({"predictor": module}, {"predictor": mode})
        assert (module.norm.training, module.drop.training) == expected
    set_modes({"predictor": module}, {})
    assert (module.norm.training, module.drop.training) == (True, True)


def test_steps_alternate_each_on_its_own_modules() -> None:
    """Two steps a batch: the first moves the predictor alone, the second the extractor alone, and both are told."""
    seen: list[str] = []

    def loss(name: str, value: float) -> Any:
        def compute(outputs: Outputs, batch: Batch) -> torch.Tensor:
            seen.append(name)
            return outputs["logits"].square().mean() * value

        return compute

    paths = {"logits": ("extractor", "predictor")}
    work = Fit(
        steps=(
            Step(outputs=paths, loss=loss("a", 1.0), update=("predictor",)),
            Step(outputs=paths, loss=loss("b", 0.0), update=("extractor",)),
        ),
        optimiser=Sgd(lr=0.1, weight_decay=0.0),
        batch_size=8,
        labelled=False,
        finish=lambda states: Finished(sends=states),
        schema=lambda network: {},
    )
    bench = bench_of()
    states = initial(bench)
    fitted = fit(work, bench, images(16), states, stream=STREAM, momentum={})
    assert seen == ["a", "b"] * 2
    assert fitted.losses[0] > 0
    assert fitted.losses[1] == 0
    assert not same(parameters(fitted.states["predictor"]), parameters(states["predictor"]))
    assert same(parameters(fitted.states["extractor"]), parameters(states["extractor"]))


# Labels


@pytest.mark.parametrize("task", [train(**SGD), tune(**SGD)])
def test_labelled_task_is_refused_by_a_client_without_labels(task: Task) -> None:
    bench = bench_of()
    with pytest.raises(WorkError, match="no labels"):
        run(task, bench, images(labelled=False), initial(bench))


def test_labelled_sweep_is_refused_by_a_client_without_labels() -> None:
    bench = bench_of()
    with pytest.raises(WorkError, match="no labels"):
        sweep(score(labelled=True), bench, images(labelled=False), initial(bench))


def test_unlabelled_task_never_sees_labels_even_where_there_are_some() -> None:
    bench = bench_of()
    assert bench.batch(images(), slice(0, 4), labelled=False).labels is None
    states = initial(bench, "extractor", "predictor:1", "predictor:2")
    one = run(aligning(), bench, images(), states)
    two = run(aligning(), bench, images(labelled=False), states)
    assert digest(one.states) == digest(two.states)


# A client


def ask(client: Client, task: Task, states: dict[str, State], *, number: int = 0) -> Reply | Failure:
    return client.execute(Job(client.name, number, task, states), bench_of(), seed=3)


def test_client_with_one_image_fails_by_name() -> None:
    bench = bench_of()
    for task, parts in ((train(**SGD), ()), (aligning(), ("extractor", "predictor:1", "predictor:2"))):
        failure = ask(Client("lonely", images(1)), task, initial(bench, *parts))
        assert isinstance(failure, Failure)
        assert (failure.client, failure.task, failure.kind) == ("lonely", task.name, "refused")
        assert "1 image" in failure.reason


def test_client_without_labels_fails_by_name() -> None:
    failure = ask(Client("blind", images(labelled=False)), train(**SGD), initial(bench_of()))
    assert isinstance(failure, Failure)
    assert str(failure).startswith("blind: train refused: it has no labels")


def test_loss_that_is_not_finite_fails_by_name() -> None:
    failure = ask(Client("wild", images()), train(**SGD | {"lr": 1e30, "epochs": 3}), initial(bench_of()))
    assert isinstance(failure, Failure)
    assert failure.client == "wild"
    assert "loss is not a finite number" in failure.reason


def test_client_without_images_fails_by_name() -> None:
    failure = ask(Client("empty", images(0)), centroids(), initial(bench_of()))
    assert isinstance(failure, Failure)
    assert failure.client == "empty"


def test_predictor_stays_at_the_client_between_training_and_fine_tuning() -> None:
    bench, data = bench_of(), images()
    states = initial(bench)
    client = Client("a", data)
    reply = ask(client, train(**SGD), states)
    assert isinstance(reply, Reply)
    assert set(reply.parts) == {"extractor"}
    expected = run(train(**SGD), bench, data, states).states
    assert digest(reply.parts) == digest({"extractor": expected["extractor"]})
    assert same(client.memory.round["predictor"], expected["predictor"])
    tuned = ask(client, tune(**SGD), {"extractor": states["extractor"]})
    assert isinstance(tuned, Reply)
    work = tune(**SGD).work
    assert isinstance(work, Fit)
    start = {"extractor": states["extractor"], "predictor": expected["predictor"]}
    by_hand = fit(work, bench, data, start, stream=(3, "round", 0, "tune", "a"), momentum={})
    assert same(tuned.parts["predictor"], by_hand.states["predictor"])


def test_predictor_of_another_round_is_forgotten() -> None:
    client, states = Client("a", images()), initial(bench_of())
    ask(client, train(**SGD), states, number=0)
    failure = ask(client, tune(**SGD), {"extractor": states["extractor"]}, number=1)
    assert isinstance(failure, Failure)
    assert "did not take part in local training" in failure.reason


def test_momentum_lasts_for_the_run_if_persistent_and_for_the_task_if_not() -> None:
    states = initial(bench_of())
    fresh, lasting = (SGD | {"persistent": persistent} for persistent in (False, True))
    forgetful, steady = Client("a", images()), Client("a", images())
    first = [ask(client, train(**sgd), states) for client, sgd in ((forgetful, fresh), (steady, lasting))]
    assert digest(first[0].parts) == digest(first[1].parts)
    assert not forgetful.memory.run
    assert set(steady.memory.run) == {"momentum/extractor", "momentum/predictor"}
    second = [ask(client, train(**sgd), states) for client, sgd in ((forgetful, fresh), (steady, lasting))]
    assert digest(second[0].parts) == digest(first[0].parts)
    assert digest(second[1].parts) != digest(first[1].parts)
    assert digest(ask(steady, train(**fresh), states).parts) == digest(first[0].parts)
    steady.memory.enter(7)
    assert set(steady.memory.run) == {"momentum/extractor", "momentum/predictor"}


def test_client_keeps_a_tagged_model_and_needs_it_only_once() -> None:
    client, states = Client("t", images(labelled=False)), initial(bench_of())
    tags = {part: f"h0/{part}" for part in states}
    reply = client.execute(Job("t", 0, hold(), states, tags), bench_of(), seed=3)
    assert isinstance(reply, Reply)
    assert reply.parts == {}
    assert set(reply.holds) == set(client.memory.cache) == {"h0/extractor", "h0/predictor"}
    again = Job("t", 0, centroids(), {part: Held(tag) for part, tag in tags.items()}, tags)
    first, second = client.execute(again, bench_of(), seed=3), ask(client, centroids(), states)
    assert digest(first.parts) == digest(second.parts)
    newer = {part: f"h1/{part}" for part in states}
    assert set(client.execute(Job("t", 1, hold(), states, newer), bench_of(), seed=3).holds) == set(newer.values())
    assert client.execute(again, bench_of(), seed=3).kind == "forgot"
