"""Clients that hold several domains, values for single images that stay, further parts: each against plain PyTorch."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from galafed.batches import WorkError, count_batches, parallel_batches, shuffled_batches
from galafed.client import Client
from galafed.loops import Bench, Images, fit, sweep
from galafed.messages import Failure, Job, Reply
from galafed.model import State
from galafed.networks.base import Network
from galafed.networks.layers import Dropout
from galafed.runs.seeding import seed_for
from galafed.work import Batch, Finished, Fit, Outputs, Readout, Sgd, Step, Sweep, Task, stream_of

STREAM = (7, "round", 0, "t", "pooled")


class Tiny(Network):
    """Pixels to four features to three logits, with a BatchNorm to tell streams apart by."""

    name: ClassVar[str] = "tiny"
    feature_size = 4

    def extractor(self) -> nn.Module:
        return nn.Sequential(
            OrderedDict(flat=nn.Flatten(), full=nn.Linear(3 * 2 * 2, 4), norm=nn.BatchNorm1d(4), relu=nn.ReLU())
        )

    def predictor(self) -> nn.Module:
        return nn.Sequential(OrderedDict(drop=Dropout(0.5, layer=1), full=nn.Linear(4, self.classes)))


def bench() -> Bench:
    return Bench(Tiny(classes=3, image_size=2), torch.device("cpu"), torch.float64)


def images(count: int, seed: int, *, labelled: bool = True) -> Images:
    pixels = torch.randint(0, 256, (count, 2, 2, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
    return Images(pixels, torch.arange(count) % 3 if labelled else None)


def pooled() -> Images:
    parts = {"a": images(10, 1), "b": images(4, 2), "t": images(7, 3, labelled=False)}
    return Images(torch.cat([parts["a"].images, parts["b"].images]), torch.arange(14) % 3, parts)


def no_loss(outputs: Outputs, batch: Batch) -> torch.Tensor:
    return batch.images.new_zeros(())


def work(loss: Any, outputs: dict[str, tuple[str, ...]], update: tuple[str, ...] = (), **more: Any) -> Fit:
    return Fit(
        steps=(Step(outputs=outputs, loss=loss, update=update),),
        optimiser=Sgd(lr=0.1, momentum=0.0, weight_decay=0.0),
        batch_size=4,
        labelled=True,
        finish=lambda states: Finished(sends=states),
        schema=lambda network: {},
        **more,
    )


def states() -> dict[str, State]:
    return dict(bench().network.initial(0, torch.float64).parts)


SIZES = {"a": 10, "b": 4, "t": 7}
EVERY = {name: (f"@{name}", "extractor", "predictor") for name in ("a", "b", "t")}


def test_a_path_tells_its_stream_and_a_fit_its_modules_and_streams() -> None:
    assert stream_of(("@svhn", "extractor")) == "svhn"
    assert stream_of(("extractor",)) == ""
    found = work(no_loss, EVERY | {"own": ("extractor",)})
    assert found.modules == ("extractor", "predictor")
    assert found.streams == ("a", "b", "t", "")
    assert Readout((("extractor:a", "predictor"), ("extractor:b", "predictor"))).parts == (
        "extractor:a",
        "predictor",
        "extractor:b",
    )


@pytest.mark.parametrize(("count", "batches"), [(1, 0), (2, 1), (4, 1), (5, 1), (6, 2), (8, 2), (9, 2)])
def test_batches_are_counted_as_they_are_made(count: int, batches: int) -> None:
    assert count_batches(count, 4) == batches
    if count > 1:
        assert len(list(shuffled_batches(count, 4, 1, STREAM))) == batches


def test_an_epoch_is_one_of_the_longest_stream_and_the_shorter_ones_start_over_in_a_new_order() -> None:
    drawn = list(parallel_batches(SIZES, 4, 2, STREAM))
    assert len(drawn) == 2 * 3
    for epoch in (drawn[:3], drawn[3:]):
        assert sorted(torch.cat([d["a"] for d in epoch]).tolist()) == list(range(10))
    of_b = [d["b"].tolist() for d in drawn]
    assert all(sorted(indices) == [0, 1, 2, 3] for indices in of_b)
    assert len({tuple(indices) for indices in of_b}) > 1
    assert sorted(torch.cat([d["t"] for d in drawn[:2]]).tolist()) == list(range(7))


def test_every_stream_has_a_random_order_of_its_own() -> None:
    alone = [d["b"].tolist() for d in parallel_batches({"b": SIZES["b"]}, 4, 1, STREAM)]
    together = [d["b"].tolist() for d in parallel_batches(SIZES, 4, 1, STREAM)]
    assert together[: len(alone)] == alone


def test_a_step_over_streams_is_plain_gradient_descent_with_statistics_for_each_stream() -> None:
    def loss(outputs: Outputs, batch: Batch) -> torch.Tensor:
        assert len(batch.images) == 0
        assert batch.streams["t"].labels is None
        cross_entropy = nn.functional.cross_entropy
        first, second = (cross_entropy(outputs[s], batch.streams[s].labels) for s in ("a", "b"))  # type: ignore[arg-type]
        return first + 2 * second + outputs["t"].square().mean()

    task = work(loss, EVERY, ("extractor",), modes={"predictor": "no_dropout"})
    found = fit(task, bench(), pooled(), states(), stream=STREAM, momentum={})

    place, data = bench(), pooled()
    modules = place.modules(states())
    modules["predictor"].eval()  # no BatchNorm in there: this is no_dropout
    G, F = modules["extractor"].train(), modules["predictor"]
    for index in parallel_batches({name: SIZES[name] for name in task.streams}, 4, task.epochs, STREAM):
        batches = {s: place.batch(data.streams[s], i, labelled=True) for s, i in index.items()}
        outputs = {s: F(G(batches[s].images)) for s in ("a", "b", "t")}
        G.zero_grad()
        F.zero_grad()
        loss(outputs, Batch(torch.zeros(0), streams=batches)).backward()
        with torch.no_grad():
            for parameter in G.parameters():
                parameter -= 0.1 * parameter.grad  # type: ignore[operator]
    for name, value in G.state_dict().items():
        torch.testing.assert_close(found.states["extractor"][name], value, rtol=0, atol=1e-12)


def test_streams_have_dropout_masks_of_their_own() -> None:
    same = Images(torch.full((4, 2, 2, 3), 200, dtype=torch.uint8), torch.arange(4) % 3)
    seen: dict[str, torch.Tensor] = {}

    def loss(outputs: Outputs, batch: Batch) -> torch.Tensor:
        seen.update(outputs)
        return batch.images.new_zeros(())

    paths = {"a": ("@a", "predictor"), "again": ("@a", "predictor"), "b": ("@b", "predictor")}
    data = Images(same.images[:0], None, {"a": same, "b": same})

    class Flat(Tiny):
        def predictor(self) -> nn.Module:
            return Dropout(0.5, layer=1)

    place = Bench(Flat(classes=3, image_size=2), torch.device("cpu"))
    fit(work(loss, paths), place, data, {"predictor": {}}, stream=STREAM, momentum={})
    assert torch.equal(seen["a"], seen["again"])
    assert not torch.equal(seen["a"] == 0, seen["b"] == 0)
    layer = Dropout(0.5, layer=1)
    layer.key.fill_(seed_for(*STREAM, 0, 0, "predictor", "@b"))
    assert torch.equal(layer(torch.ones_like(seen["b"])) == 0, seen["b"] == 0)


def test_a_missing_stream_is_named() -> None:
    with pytest.raises(WorkError, match="does not hold the images of usps"):
        fit(work(no_loss, {"x": ("@usps", "extractor")}), bench(), pooled(), states(), stream=STREAM, momentum={})


# Rows


def first_pixels(stream: str = "", **more: Any) -> Sweep:
    """The first pixel of every image, as rows, and their sum."""
    path = (f"@{stream}", "extractor") if stream else ("extractor",)

    def measure(outputs: Outputs, batch: Batch) -> dict[str, torch.Tensor]:
        images = (batch.streams[stream] if stream else batch).images
        return {"pixel": images[:, 0, 0, 0], "total": images[:, 0, 0, 0].sum()}

    return Sweep(
        outputs={"features": path},
        measure=measure,
        rows=("pixel",),
        finish=lambda found, dtype: {"sums": {"total": found["total"], "largest": found["pixel"].max()}},
        schema=lambda network: {},
        batch_size=3,
        **more,
    )


@pytest.mark.parametrize("stream", ["", "t"])
@pytest.mark.parametrize("mode", ["eval", "no_dropout", "train"])
def test_rows_of_a_sweep_lie_in_the_order_of_the_images(stream: str, mode: str) -> None:
    data = pooled()
    swept = sweep(first_pixels(stream, mode=mode), bench(), data, states(), stream=STREAM)
    pixels = data.stream(stream).images[:, 0, 0, 0].double() / 127.5 - 1
    torch.testing.assert_close(swept.rows["pixel"], pixels)
    torch.testing.assert_close(swept.parts["sums"]["total"], pixels.sum())
    torch.testing.assert_close(swept.parts["sums"]["largest"], pixels.max())


def test_a_sweep_with_batch_statistics_mixes_its_batches_and_leaves_the_model_alone() -> None:
    before = states()
    given = {part: {name: value.clone() for name, value in state.items()} for part, state in before.items()}
    one, two = (
        sweep(first_pixels(mode="no_dropout"), bench(), pooled(), given, stream=(*STREAM, seed)) for seed in (1, 2)
    )
    assert torch.equal(one.rows["pixel"], two.rows["pixel"])
    for part, state in before.items():
        assert all(torch.equal(state[name], given[part][name]) for name in state)


def ask(client: Client, work: Fit | Sweep, payload: dict[str, State], number: int = 0) -> Reply | Failure:
    return client.execute(Job(client.name, number, Task("t", {}, work), payload), bench(), seed=7)


def use_rows(seen: list[Batch], **more: Any) -> Fit:
    def loss(outputs: Outputs, batch: Batch) -> torch.Tensor:
        seen.append(batch)
        return batch.images.new_zeros(())

    return work(loss, {"features": ("extractor",)}, rows=("pixel",), **more)


def test_rows_meet_their_images_again_in_a_fit_and_never_travel() -> None:
    client, seen = Client("c", images(9, 4)), list[Batch]()
    payload = {"extractor": states()["extractor"]}
    reply = ask(client, first_pixels(), payload)
    assert isinstance(reply, Reply)
    assert set(reply.parts) == {"sums"}
    assert isinstance(ask(client, use_rows(seen), payload), Reply)
    assert len(seen) == 2
    for batch in seen:
        assert torch.equal(batch.rows["pixel"], batch.images[:, 0, 0, 0])


def test_rows_are_mixed_with_the_images() -> None:
    client, seen = Client("c", images(8, 4, labelled=False)), list[Batch]()
    payload = {"extractor": states()["extractor"]}
    ask(client, first_pixels(), payload)
    ask(client, dataclasses.replace(use_rows(seen, mixup=2.0), labelled=False), payload)
    for batch in seen:
        assert batch.mixed is not None
        assert batch.mixed.labels is None
        share = batch.mixed.share
        mixture = share * batch.rows["pixel"] + (1 - share) * batch.mixed.rows["pixel"]
        torch.testing.assert_close(mixture, batch.images[:, 0, 0, 0])


def test_rows_are_forgotten_with_the_round() -> None:
    client, payload = Client("c", images(8, 4)), {"extractor": states()["extractor"]}
    ask(client, first_pixels(), payload)
    answer = ask(client, use_rows([]), payload, number=1)
    assert isinstance(answer, Failure)
    assert "no pixel in this round" in answer.reason


def test_a_sweep_keeps_parts_for_another_to_recall() -> None:
    client, payload = Client("c", images(8, 4)), {"extractor": states()["extractor"]}
    double = {name: 2 * value for name, value in payload["extractor"].items()}
    keeping = dataclasses.replace(
        first_pixels(), finish=lambda found, dtype: {"extractor": double}, keeps=("extractor",)
    )
    reply = ask(client, keeping, payload)
    assert isinstance(reply, Reply)
    assert reply.parts == {}
    recalling = dataclasses.replace(work(no_loss, {"x": ("extractor",)}), recall=("extractor",), epochs=0)
    reply = ask(client, recalling, {})
    assert isinstance(reply, Reply)
    assert torch.equal(reply.parts["extractor"]["full.weight"], double["full.weight"])


def test_a_repeated_task_draws_other_batches() -> None:
    client, orders = Client("c", images(8, 4)), []
    for repeat in (0, 0, 1):
        seen: list[Batch] = []
        ask(client, first_pixels(), {"extractor": states()["extractor"]})
        ask(client, use_rows(seen, repeat=repeat), {"extractor": states()["extractor"]})
        orders.append(torch.cat([batch.rows["pixel"] for batch in seen]).tolist())
    assert orders[0] == orders[1] != orders[2]


def test_rates_scale_the_step_of_a_module() -> None:
    def loss(outputs: Outputs, batch: Batch) -> torch.Tensor:
        return outputs["logits"].square().mean()

    paths = {"logits": ("extractor", "predictor")}
    both = ("extractor", "predictor")
    data, before = images(4, 4), states()
    plain = fit(work(loss, paths, both), bench(), data, states(), stream=STREAM, momentum={}).states
    slow = work(loss, paths, both, rates={"extractor": 0.25})
    scaled = fit(slow, bench(), data, states(), stream=STREAM, momentum={}).states
    for name in ("full.weight", "norm.bias"):
        moved = plain["extractor"][name] - before["extractor"][name]
        torch.testing.assert_close(scaled["extractor"][name] - before["extractor"][name], 0.25 * moved)
    assert torch.equal(scaled["predictor"]["full.weight"], plain["predictor"]["full.weight"])


# Parts


def test_a_reversal_needs_no_state_and_turns_gradients_round() -> None:
    def loss(outputs: Outputs, batch: Batch) -> torch.Tensor:
        return outputs["x"].square().mean()

    client, start = Client("c", images(4, 4)), {"extractor": states()["extractor"]}
    moves = []
    for path in (("extractor",), ("extractor", "reverse")):
        reply = ask(client, work(loss, {"x": path}, ("extractor",)), start)
        assert isinstance(reply, Reply)
        moves.append(reply.parts["extractor"]["full.weight"] - start["extractor"]["full.weight"])
    assert moves[0].abs().max() > 0
    torch.testing.assert_close(moves[0], -moves[1])


def test_heads_of_one_kind_start_differently_and_each_from_the_seed_alone() -> None:
    network = bench().network
    a, b = (network.fresh(f"predictor:{name}", 3)["full.weight"] for name in "ab")
    assert not torch.equal(a, b)
    assert torch.equal(a, network.fresh("predictor:a", 3)["full.weight"])
    assert torch.equal(network.initial(3).predictor["full.weight"], network.fresh("predictor", 3)["full.weight"])
