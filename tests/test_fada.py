"""FADA: a batch at a source and one at the target by hand, what is shared, what stays, who is attended to."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from galafed.confrontation import DISCERNING_RATE, LOCAL, cluster_target, confront, disentangle, share_features
from galafed.disentanglement import attention, gap_statistic
from galafed.loops import Images, fit, sweep
from galafed.model import State, digest
from galafed.networks.small_cnn import SmallCnn
from galafed.runs.seeding import generator
from test_algorithms import TARGET, Played, play
from test_central import BCE, CE, LR, NETWORK, SGD, bench

STREAM = (7, "round", 0, "t", "c")
COUNT = 5


def images(count: int, *, labelled: bool) -> Images:
    draw = torch.Generator().manual_seed(count)
    pixels = torch.randint(0, 256, (count, 2, 2, 3), generator=draw, dtype=torch.uint8)
    return Images(pixels, torch.arange(count) % 3 if labelled else None)


def fresh(*parts: str) -> dict[str, State]:
    return {part: NETWORK.fresh(part, 0, torch.float64) for part in parts}


def modules_of(states: dict[str, State]) -> dict[str, nn.Module]:
    made = {}
    for part, state in states.items():
        made[part] = NETWORK.make(part).double().train()
        made[part].load_state_dict(state)
    return made


def gradients(loss: Tensor, module: nn.Module) -> list[Tensor]:
    found = torch.autograd.grad(loss, list(module.parameters()), retain_graph=True, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for g, p in zip(found, module.parameters(), strict=True)]


def descend(module: nn.Module, *terms: tuple[float, list[Tensor]]) -> None:
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter -= LR * sum(weight * moves[number] for weight, moves in terms)  # type: ignore[arg-type]


def assert_states(made: dict[str, nn.Module], states: dict[str, State]) -> None:
    for part, module in made.items():
        for name, value in module.state_dict().items():
            torch.testing.assert_close(
                states[part][name], value, rtol=0, atol=1e-10, msg=lambda m, n=f"{part} {name}": f"{n}: {m}"
            )


def test_a_batch_at_a_source() -> None:
    settings = {"adversarial_weight": 0.3, "disentangling_weight": 0.2}
    data = images(9, labelled=True)
    states = fresh("extractor", "predictor", "discriminator", *LOCAL)
    work = disentangle(**settings, **SGD).work
    done = fit(work, bench(), data, {**states, "reverse": {}}, stream=STREAM, momentum={})  # type: ignore[arg-type]

    made = modules_of(states)
    order = torch.randperm(9, generator=generator(*STREAM, "shuffle", 0))  # neighbours in the batch make the marginal
    x = NETWORK.prepare(data.images[order], torch.float64)
    y = data.labels[order] if data.labels is not None else None
    f, specific = made["extractor"](x), made["disentangler"](x)
    labels = CE(made["predictor"](f), y) + CE(made["identifier"](specific), y)
    phi, psi = made["critic:features"](f), made["critic:specific"](specific)
    joint = torch.stack([phi[i] @ psi[i] for i in range(9)])
    marginal = torch.stack([phi[i] @ psi[i - 1] for i in range(9)])
    information = joint.mean() - marginal.exp().mean().log()
    drawn = made["reconstructor:features"](f) + made["reconstructor:specific"](specific)
    thumbnail = nn.functional.adaptive_avg_pool2d(x, 8).flatten(1)
    reconstruction = ((drawn - thumbnail) ** 2).mean()
    domain = made["discriminator"](f)
    fooled = BCE(domain, torch.zeros_like(domain))  # the source wants to be taken for the target
    expected = labels + 0.2 * (reconstruction - information) + 0.3 * fooled
    assert done.losses[0] == pytest.approx(expected.item(), rel=1e-9)

    moves: dict[str, list[tuple[float, list[Tensor]]]] = {}
    for part in ("extractor", "predictor", *LOCAL):
        sign = -1 if part.startswith("critic") else 1  # the critic raises the estimate, all others lower it
        moves[part] = [
            (1.0, gradients(labels, made[part])),
            (0.2, gradients(reconstruction, made[part])),
            (0.2 * sign, gradients(information, made[part])),
            (0.3, gradients(fooled, made[part])),
        ]
    for part, terms in moves.items():
        descend(made[part], *terms)
    guess = made["identifier"](made["disentangler"](x))
    confusion = -guess.log_softmax(dim=1).mean()
    assert done.losses[1] == pytest.approx(confusion.item(), rel=1e-9)
    descend(made["disentangler"], (1.0, gradients(confusion, made["disentangler"])))
    assert_states(made, done.states)


def test_a_batch_at_the_target() -> None:
    data, sources = images(8, labelled=False), ("a", "b")
    parts = [f"discriminator:{s}" for s in sources] + [f"bank:{COUNT}:{s}" for s in sources]
    states = fresh("extractor", "predictor", *parts)
    for number, s in enumerate(sources):
        draw = torch.Generator().manual_seed(number)
        states[f"bank:{COUNT}:{s}"]["features"] = torch.rand(COUNT, 6, generator=draw, dtype=torch.float64)
    work = confront(sources=sources, count=COUNT, adversarial_weight=0.4, **SGD).work
    done = fit(work, bench(), data, states, stream=STREAM, momentum={})  # type: ignore[arg-type]

    made = modules_of(states)
    x = NETWORK.prepare(data.images, torch.float64)
    f, total = made["extractor"](x), 0.0
    for s in sources:
        D = made[f"discriminator:{s}"]
        source, target = D(states[f"bank:{COUNT}:{s}"]["features"]), D(f)
        loss = BCE(source, torch.ones_like(source)) + BCE(target, torch.zeros_like(target))
        total += loss.item()
        descend(D, (DISCERNING_RATE, gradients(loss, D)))
    assert done.losses[0] == pytest.approx(total, rel=1e-9)
    f = made["extractor"](x)
    seen = [made[f"discriminator:{s}"](f) for s in sources]
    fooled = torch.stack([BCE(logits, torch.ones_like(logits)) for logits in seen]).mean()
    assert done.losses[1] == pytest.approx(0.4 * fooled.item(), rel=1e-9)
    descend(made["extractor"], (0.4, gradients(fooled, made["extractor"])))
    made["predictor"](f)  # its statistics become the target's, its parameters rest
    assert_states(made, done.states)


@pytest.mark.parametrize("held", [3, 40])
def test_a_source_shares_features_of_so_many_images_and_repeats_too_few(held: int) -> None:
    data, states = images(held, labelled=True), fresh("extractor")
    swept = sweep(share_features(count=COUNT).work, bench(), data, states, stream=STREAM)  # type: ignore[arg-type]
    bank = swept.parts["bank"]["features"]
    extractor = modules_of(states)["extractor"].eval()
    every = extractor(NETWORK.prepare(data.images, torch.float64)).detach()
    assert bank.shape == (COUNT, 6)
    for row in bank:
        assert float((every - row).abs().sum(dim=1).min()) < 1e-12
    assert swept.rows == {}
    if held == 3:
        assert torch.equal(bank[3], bank[0])


def test_clusters_are_counted_over_a_sample_of_the_target() -> None:
    data, states = images(30, labelled=False), fresh("extractor")
    swept = sweep(cluster_target(clusters=3).work, bench(), data, states, stream=STREAM)  # type: ignore[arg-type]
    features = modules_of(states)["extractor"](NETWORK.prepare(data.images, torch.float64))
    assert float(swept.parts["gap"]["value"]) == pytest.approx(gap_statistic(features.detach(), 3).item(), rel=0.2)


# Rounds


def fada(rounds: int = 1, **my: Any) -> Played:
    return play("fada", rounds=rounds, fada=my)


def test_only_what_is_announced_leaves_a_source() -> None:
    played = fada()
    sent = {
        job.task.name: set(a.parts) for job, a in zip(played.jobs, played.answers, strict=True) if job.client == "dark"
    }  # type: ignore[union-attr]
    assert sent == {"disentangle": {"extractor", "predictor"}, "share_features": {"bank"}}
    for job in played.jobs:
        assert not set(job.payload) & set(LOCAL)


def test_what_pulls_features_apart_stays_at_its_source_and_goes_on() -> None:
    one, two = (fada(rounds).parts.engine.client_states() for rounds in (1, 2))  # type: ignore[attr-defined]
    assert set(one) == {"bright", "dark", "faint", "inverted"}
    for kept in (one, two):
        assert set(kept["dark"]) == {f"own/{part}" for part in LOCAL}
    assert digest({"d": one["dark"]["own/disentangler"]}) != digest({"d": two["dark"]["own/disentangler"]})
    assert digest({"d": one["dark"]["own/disentangler"]}) != digest({"d": one["faint"]["own/disentangler"]})


def test_attention_weighs_the_model_the_target_starts_from() -> None:
    played = fada()
    a = played.last.relevance
    values = [
        r.parts["gap"]["value"].item()
        for j, r in zip(played.jobs, played.answers, strict=True)
        if j.task.name == "cluster_target"
    ]  # type: ignore[union-attr]
    assert a == pytest.approx(attention(values[0], dict(zip(sorted(a), values[1:], strict=True))))
    local = played.sent("disentangle", "extractor")
    received = played.received("confront", TARGET)["extractor"]
    for name in ("conv1.weight", "norm1.bias"):
        torch.testing.assert_close(received[name], sum(a[n] * local[n][name] for n in a))  # type: ignore[arg-type]


def test_each_source_receives_its_own_discriminator() -> None:
    played = fada(2)
    before = played.outcomes[0].model.parts
    for source in ("bright", "dark"):
        found = played.received("disentangle", source)["discriminator"]
        assert digest({"d": found}) == digest({"d": before[f"discriminator:{source}"]})


def test_bytes_are_those_of_the_states_and_features() -> None:
    played = fada(shared_features=10)
    network = played.parts.network
    assert isinstance(network, SmallCnn)

    def floats(part: str) -> int:
        return sum(math.prod(shape) * (4 if real else 8) for shape, real in network.schema(part).values())

    model, discriminator = floats("extractor") + floats("predictor"), floats("discriminator:a")
    up = model + 10 * network.feature_size * 4
    assert played.bytes[0]["source"] == pytest.approx(model + discriminator + up, rel=0.01)
