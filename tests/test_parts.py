"""Parts besides extractor and predictor, and what a step, a sweep and a client can do with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn

from galafed.client import Client
from galafed.loops import Bench, Images, fit, sweep
from galafed.messages import Job, Reply
from galafed.model import State, schema_of
from galafed.networks.small_cnn import SmallCnn
from galafed.work import Batch, Finished, Fit, Outputs, Sgd, Step, Sweep, Task

NETWORK = SmallCnn(classes=3, image_size=8)
STREAM = (3, "round", 0, "t", "c")
LENT = "extractor|norms:extractor:a"


def bench() -> Bench:
    return Bench(NETWORK, torch.device("cpu"), torch.float64)


def images(count: int) -> Images:
    pixels = torch.randint(0, 256, (count, 8, 8, 3), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    return Images(pixels, torch.arange(count) % 3)


def fresh(*parts: str) -> dict[str, State]:
    return {part: NETWORK.fresh(part, 0, torch.float64) for part in parts}


def one_step(step: Step, **more: Any) -> Fit:
    return Fit(
        steps=(step,),
        optimiser=Sgd(lr=0.1, momentum=0.0, weight_decay=0.0),
        batch_size=4,
        labelled=True,
        finish=lambda states: Finished(sends=states),
        schema=lambda network: {},
        **more,
    )


def mean_square(outputs: Outputs, batch: Batch) -> torch.Tensor:
    return outputs["x"].square().mean()


@pytest.mark.parametrize(
    ("part", "inputs", "output"),
    [
        ("discriminator:a", NETWORK.feature_size, (2, 1)),
        ("discriminator:logits:a", 3, (2, 1)),
        ("curriculum", NETWORK.feature_size, (2, 1)),
        ("centroids:a", 3, (3, 3)),
    ],
)
def test_shapes_and_schemas(part: str, inputs: int, output: tuple[int, ...]) -> None:
    module = NETWORK.make(part)
    assert tuple(module(torch.zeros(2, inputs)).shape) == output
    assert NETWORK.schema(part) == schema_of(dict(module.state_dict()))


def test_curriculum_starts_without_an_opinion() -> None:
    scores = NETWORK.make("curriculum")(
        torch.randn(5, NETWORK.feature_size, generator=torch.Generator().manual_seed(0))
    )
    assert scores.tolist() == [[0.0]] * 5


# Norms


@pytest.mark.parametrize("of", ["extractor", "predictor"])
def test_norms_are_the_batchnorm_layers_alone_under_their_names(of: str) -> None:
    whole = NETWORK.make(of)
    expected = {
        f"{name}.{key}": value.shape
        for name, layer in whole.named_modules()
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)
        for key, value in layer.state_dict().items()
    }
    assert expected
    found = NETWORK.make(f"norms:{of}:a").state_dict()
    assert {name: value.shape for name, value in found.items()} == expected


def test_lent_norms_work_as_if_they_were_the_modules_own() -> None:
    start = fresh("extractor", "norms:extractor:a")
    start["norms:extractor:a"]["norm1.weight"] *= 3
    own = {"extractor": start["extractor"] | start["norms:extractor:a"]}

    lent = one_step(Step(outputs={"x": (LENT,)}, loss=mean_square, update=("extractor", "norms:extractor:a")))
    plain = one_step(Step(outputs={"x": ("extractor",)}, loss=mean_square, update=("extractor",)))
    assert lent.modules == ("extractor", "norms:extractor:a")
    found = fit(lent, bench(), images(8), start, stream=STREAM, momentum={})
    expected = fit(plain, bench(), images(8), own, stream=STREAM, momentum={})

    assert found.losses == pytest.approx(expected.losses, rel=1e-12)
    together = found.states["extractor"] | found.states["norms:extractor:a"]
    for name, value in expected.states["extractor"].items():
        torch.testing.assert_close(together[name], value, rtol=0, atol=1e-12)
    for name in found.states["norms:extractor:a"]:  # the module's own norms rest
        assert torch.equal(found.states["extractor"][name], start["extractor"][name]), name


# Remembering


def test_a_step_remembers_from_batch_to_batch() -> None:
    seen: list[torch.Tensor] = []

    def remember(outputs: Outputs, batch: Batch) -> dict[str, State]:
        seen.append(outputs["centroids"].clone())
        return {"centroids:a": {"means": outputs["centroids"] + 1}}

    step = Step(
        outputs={"centroids": ("centroids:a",)}, loss=lambda o, b: o["centroids"].sum(), update=(), remember=remember
    )
    found = fit(one_step(step), bench(), images(12), fresh("centroids:a"), stream=STREAM, momentum={})
    assert [float(value.mean()) for value in seen] == [0, 1, 2]
    assert float(found.states["centroids:a"]["means"].mean()) == 3


def test_a_remembered_value_carries_no_gradient_into_the_next_batch() -> None:
    def outputs(outputs: Outputs, batch: Batch) -> torch.Tensor:
        return (outputs["logits"].mean(dim=0) + outputs["centroids"]).square().mean()

    def remember(outputs: Outputs, batch: Batch) -> dict[str, State]:
        return {"centroids:a": {"means": outputs["logits"].mean(dim=0).expand(3, 3)}}

    paths = {"logits": ("extractor", "predictor"), "centroids": ("centroids:a",)}
    step = Step(outputs=paths, loss=outputs, update=("extractor",), remember=remember)
    found = fit(
        one_step(step), bench(), images(12), fresh("extractor", "predictor", "centroids:a"), stream=STREAM, momentum={}
    )
    assert not found.states["centroids:a"]["means"].requires_grad


# Samples


def pixels(sample: int) -> Sweep:
    return Sweep(
        outputs={"features": ("extractor",)},
        measure=lambda outputs, batch: {"pixel": batch.images[:, 0, 0, 0], "count": torch.tensor(len(batch.images))},
        rows=("pixel",),
        finish=lambda found, dtype: {"found": dict(found)},
        schema=lambda network: {},
        batch_size=3,
        sample=sample,
    )


def test_a_sample_is_of_different_images_drawn_anew_in_each_round_and_leaves_no_rows() -> None:
    data = images(20)
    every = (data.images[:, 0, 0, 0].double() / 127.5 - 1).tolist()
    drawn = []
    for stream in (STREAM, STREAM, (*STREAM, 1)):
        swept = sweep(pixels(8), bench(), data, fresh("extractor"), stream=stream)
        assert swept.rows == {}
        assert int(swept.parts["found"]["count"]) == 8
        drawn.append(swept.parts["found"]["pixel"].tolist())
    assert drawn[0] == drawn[1] != drawn[2]
    places = [min(range(20), key=lambda i: abs(every[i] - value)) for value in drawn[0]]
    assert len(set(places)) > 6  # pixels may be alike, images are not drawn twice
    assert len(sweep(pixels(50), bench(), data, fresh("extractor"), stream=STREAM).parts["found"]["pixel"]) == 20


# What a client keeps for itself


def execute(client: Client, work: Fit, payload: Mapping[str, State], number: int) -> Reply:
    reply = client.execute(Job(client.name, number, Task("t", {}, work), payload), bench(), seed=0)
    assert isinstance(reply, Reply)
    return reply


def test_own_modules_are_made_at_the_client_go_on_from_round_to_round_and_never_leave() -> None:
    step = Step(outputs={"x": ("extractor", "discriminator")}, loss=mean_square, update=("discriminator",))
    work = one_step(step, own=("discriminator",))
    work = Fit(**{**vars(work), "finish": lambda states: Finished(sends={"extractor": states["extractor"]})})
    client, payload = Client("c", images(8)), fresh("extractor")
    kept = []
    for number in range(2):
        reply = execute(client, work, payload, number)
        assert set(reply.parts) == {"extractor"}
        kept.append(client.memory.run["own/discriminator"]["full1.weight"])
    first = NETWORK.fresh("discriminator:c", 0, torch.float64)["full1.weight"]
    assert not torch.equal(kept[0], first)
    assert not torch.equal(kept[1], kept[0])

    other = Client("c", images(8))
    other.memory.run = {
        "own/discriminator": NETWORK.fresh("discriminator:c", 0, torch.float64)
    }  # as a checkpoint would
    execute(other, work, payload, 0)
    assert torch.equal(other.memory.run["own/discriminator"]["full1.weight"], kept[0])
