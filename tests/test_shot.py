"""SHOT and SFDA: class means, pseudo-labels, the information loss, what is trained and what is sent."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from galafed.benchmarks.toy import Toy
from galafed.client import Client
from galafed.hypothesis_transfer import (
    Level,
    adapt_extractors,
    better_means,
    centroids_under,
    entropy,
    first_means,
    information_loss,
    nearest_means,
)
from galafed.loops import Bench, Images, set_modes
from galafed.messages import Job, Reply
from galafed.model import Model, State, statistics, weighted_mean
from galafed.networks.parts.class_means import ClassMeans, direction
from galafed.networks.small_cnn import SmallCnn
from galafed.relevance import centroids_from, relevance, similarity_of_pairs, soft_sums
from galafed.tasks import cross_entropy
from galafed.work import Batch, Task
from test_algorithms import SOURCES, TARGET, Played, assert_close, parameters, play

FAST = {"source_epochs": 2}
SGD: dict[str, Any] = {
    "lr": 0.05, "momentum": 0.0, "weight_decay": 0.0, "persistent": False, "extractor_rate": 1.0,
    "batch_size": 16, "epochs": 1,
}  # fmt: skip


def shot(rounds: int = 2, **my: Any) -> Played:
    return play("shot", rounds=rounds, precision="float64", shot=FAST | my)


def sfda(rounds: int = 2, **my: Any) -> Played:
    return play("sfda", rounds=rounds, precision="float64", sfda=FAST | {"merge_epochs": 1} | my)


# The losses


def test_information_loss_by_hand() -> None:
    p = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], dtype=torch.float64)
    each = [-sum(x * math.log(x) for x in row) for row in p.tolist()]
    mean = [(a + b) / 2 for a, b in zip(*p.tolist(), strict=True)]
    expected = sum(each) / 2 + sum(x * math.log(x) for x in mean)
    torch.testing.assert_close(information_loss(p.log()), torch.tensor(expected, dtype=torch.float64))


def test_information_loss_is_lowest_for_sure_and_varied_predictions() -> None:
    sure = 50 * torch.eye(4, dtype=torch.float64)
    assert information_loss(sure).item() == pytest.approx(-math.log(4))
    assert information_loss(sure[:1].expand(4, 4)).item() == pytest.approx(0, abs=1e-12)
    assert entropy(torch.tensor([1.0, 0.0])).item() == 0


def test_smoothed_cross_entropy_by_hand() -> None:
    logits = torch.tensor([[1.0, 2.0, 0.5]], dtype=torch.float64)
    batch = Batch(torch.zeros(1), torch.tensor([1]))
    logp = logits.log_softmax(dim=1)[0]
    expected = -(0.9 * logp[1] + 0.1 / 3 * logp.sum())
    torch.testing.assert_close(cross_entropy({"logits": logits}, batch, smoothing=0.1), expected)


# Class means


def test_features_get_a_one_and_unit_length() -> None:
    found = direction(torch.tensor([[3.0, 0.0], [0.0, 0.0]]))
    torch.testing.assert_close(found, torch.tensor([[3.0, 0.0, 1.0], [0.0, 0.0, 10**0.5]]) / 10**0.5)


def test_class_means_give_cosines_and_least_to_a_class_without_a_mean() -> None:
    module = ClassMeans(SmallCnn(classes=3, image_size=8), "class_means:features:a")
    size = module.means.shape[1]
    means = torch.zeros(3, size)
    means[0, 0], means[1, size - 1] = 5.0, 2.0
    module.load_state_dict({"means": means, "count": torch.tensor([4.0, 1.0, 0.0])})
    features = torch.zeros(1, size - 1)
    features[0, 0] = 1.0
    torch.testing.assert_close(module(features), torch.tensor([[0.5**0.5, 0.5**0.5, -1.0]]))


def bench() -> Bench:
    return Bench(SmallCnn(classes=3, image_size=8), torch.device("cpu"), torch.float64)


def target_client() -> Client:
    return Client("t", Images(torch.from_numpy(Toy().load("bright").train.images)))


def model_of(names: tuple[str, ...]) -> dict[str, State]:
    suffixes = [f":{n}" if n else "" for n in names]
    parts = [f"{part}{suffix}" for suffix in suffixes for part in ("extractor", "predictor")]
    found = {part: bench().network.fresh(part, 5, torch.float64) for part in parts}
    for suffix in suffixes:  # an untrained network gives all images to one class: take its mean logits away
        _, logits = pass_through(target_client(), found, suffix)
        found[f"predictor{suffix}"]["full2.bias"] -= logits.mean(dim=0)
    return found


def ask(client: Client, task: Task, payload: dict[str, State]) -> Reply:
    answer = client.execute(Job(client.name, 0, task, payload), bench(), seed=1)
    assert isinstance(answer, Reply), answer
    return answer


def pass_through(client: Client, states: dict[str, State], suffix: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and logits of all images, in eval mode."""
    place = bench()
    modules = place.modules({part: states[f"{part}{suffix}"] for part in ("extractor", "predictor")})
    x = place.batch(client.data, slice(None), labelled=False).images
    with torch.no_grad():
        features = modules["extractor"].eval()(x)
        return features, modules["predictor"].eval()(features)


def below_logits(F: State, features: torch.Tensor) -> torch.Tensor:
    """What enters the last layer of the predictor of `small_cnn`: relu(BN(W z + b)) with running statistics."""
    x = features @ F["full1.weight"].T + F["full1.bias"]
    x = (x - F["norm1.running_mean"]) / (F["norm1.running_var"] + 1e-5).sqrt()
    return (x * F["norm1.weight"] + F["norm1.bias"]).relu()


def last_layer(F: State, hidden: torch.Tensor) -> torch.Tensor:
    return hidden @ F["full2.weight"].T + F["full2.bias"]


@pytest.mark.parametrize("of", ["hidden", "features"])
@pytest.mark.parametrize("names", [("",), ("a", "b")])
def test_pseudo_labels_are_those_of_the_definition_and_stay(names: tuple[str, ...], of: Level) -> None:
    client, states = target_client(), model_of(names)
    for task in (first_means, better_means, nearest_means):
        assert ask(client, task(models=list(names), of=of), states).parts == {}
    for name in names:
        suffix = f":{name}" if name else ""
        features, logits = pass_through(client, states, suffix)
        if of == "hidden":
            features = below_logits(states[f"predictor{suffix}"], features)
            torch.testing.assert_close(logits, last_layer(states[f"predictor{suffix}"], features))
        z = torch.cat([features, torch.ones(len(features), 1, dtype=torch.float64)], dim=1)
        z = z / z.norm(dim=1, keepdim=True)
        p = logits.softmax(dim=1)
        means = (p.T @ z) / p.sum(dim=0)[:, None]
        unseen = torch.bincount(logits.argmax(dim=1), minlength=3) == 0
        cosine = (z @ (means / means.norm(dim=1, keepdim=True)).T).masked_fill(unseen, -1)
        guess = cosine.argmax(dim=1)
        hard = torch.nn.functional.one_hot(guess, 3).double()
        means = (hard.T @ z) / hard.sum(dim=0).clamp_min(1)[:, None]
        cosine = z @ (means / means.norm(dim=1, keepdim=True).clamp_min(1e-12)).T
        expected = cosine.masked_fill(hard.sum(dim=0) == 0, -1).argmax(dim=1)
        assert torch.equal(client.memory.rows[""][f"label {name}"], expected)
        assert len(set(expected.tolist())) > 1


def test_adaptation_moves_extractors_alone_by_the_loss_of_each_model() -> None:
    client, states, names = target_client(), model_of(("a", "b")), ["a", "b"]
    for label in (first_means, better_means, nearest_means):
        ask(client, label(models=names, of="hidden"), states)
    whole = SGD | {"batch_size": 64}
    task = adapt_extractors(models=names, pseudo_weight=0.3, hold="x", **whole | {"extractor_rate": 0.5})
    reply = ask(client, task, states)
    assert set(reply.parts) == {"extractor:a", "extractor:b", "statistics:a", "statistics:b"}
    for name in names:
        place = bench()
        modules = place.modules({part: states[f"{part}:{name}"] for part in ("extractor", "predictor")})
        set_modes(modules, {"predictor": "no_dropout"})
        G, F = modules["extractor"], modules["predictor"]
        logits = F(G(place.batch(client.data, slice(None), labelled=False).images))
        labels = client.memory.rows[""][f"label {name}"]
        loss = 0.3 * torch.nn.functional.cross_entropy(logits, labels) + information_loss(logits)
        loss.backward()
        with torch.no_grad():
            for parameter in G.parameters():
                parameter -= 0.5 * 0.05 * parameter.grad  # type: ignore[operator]
        assert_close(reply.parts[f"extractor:{name}"], dict(G.state_dict()), 1e-10)
        assert_close(reply.parts[f"statistics:{name}"], statistics(dict(F.state_dict())), 1e-10)


def test_a_shared_pass_gives_the_centroids_of_each_model() -> None:
    client, states = target_client(), model_of(("a", "b"))
    reply = ask(client, centroids_under(models=["a", "b"]), states)
    for name in ("a", "b"):
        sums = soft_sums(*pass_through(client, states, f":{name}"))
        assert_close(reply.parts[f"centroids:{name}"], centroids_from(sums, torch.float64))


# The algorithms


def test_sources_train_in_the_first_round_alone_and_send_their_models_once() -> None:
    first = shot(rounds=1)
    trained = [(job.task.name, job.client) for job in first.jobs]
    assert trained == [("train", n) for _ in range(2) for n in SOURCES]
    sent = [set(answer.parts) for answer in first.answers if isinstance(answer, Reply)]
    assert sent == [set()] * 4 + [{"extractor", "predictor"}] * 4
    assert [set(job.payload) for job in first.jobs] == [{"extractor", "predictor"}] * 4 + [set()] * 4
    second = shot(rounds=2)
    tasks = ["first_means", "better_means", "nearest_means", "adapt_extractors"]
    assert [(job.task.name, job.client) for job in second.jobs] == [(task, TARGET) for task in tasks]


def test_sources_go_on_from_epoch_to_epoch_with_other_batches_and_a_falling_rate() -> None:
    first = shot(rounds=1, source_epochs=3)
    rates = [job.task.arguments["lr"] for job in first.jobs if job.client == "dark"]
    assert rates == pytest.approx([0.02, 0.02 * (1 + 10 / 3) ** -0.75, 0.02 * (1 + 20 / 3) ** -0.75])
    assert [job.task.arguments["repeat"] for job in first.jobs if job.client == "dark"] == [0, 1, 2]
    longer, shorter = (shot(rounds=1, source_epochs=e).model.parts["extractor:dark"]["conv1.weight"] for e in (3, 1))
    assert not torch.equal(longer, shorter)


def test_the_target_receives_all_models_once_and_holds_them() -> None:
    second, third = shot(rounds=2), shot(rounds=3)
    every = {f"{part}:{n}" for n in SOURCES for part in ("extractor", "predictor")}
    assert set(second.received("first_means", TARGET)) == every
    for task in ("better_means", "nearest_means", "adapt_extractors"):
        assert second.received(task, TARGET) == {}
    assert all(third.received(job.task.name, TARGET) == {} for job in third.jobs)


def test_predictors_of_the_sources_are_frozen_but_for_their_statistics() -> None:
    first, third = shot(rounds=1), shot(rounds=3)
    for n in SOURCES:
        old, new = (played.model.parts[f"predictor:{n}"] for played in (first, third))
        assert_close(parameters(new), parameters(old), 0)
        assert not torch.equal(new["norm1.running_mean"], old["norm1.running_mean"])
        before, after = (played.model.parts[f"extractor:{n}"]["conv1.weight"] for played in (first, third))
        assert not torch.equal(before, after)


def test_mean_of_the_models_decides() -> None:
    readout = shot(rounds=1).parts.algorithm.readout(SOURCES)
    assert readout.rule == "mean"
    assert readout.paths == tuple((f"extractor:{n}", f"predictor:{n}") for n in SOURCES)


def test_sfda_weighs_by_centroids_under_each_model() -> None:
    played = sfda(rounds=1, merge="parameters")
    r = played.sent("centroids", "centroids")
    at_target = {n: played.sent("centroids_under", f"centroids:{n}")[TARGET] for n in SOURCES}
    S = similarity_of_pairs({n: (at_target[n], r[n]) for n in SOURCES})
    assert played.last.notes["similarity"] == S
    assert played.last.relevance == relevance(S, rule="mdmgb")
    assert played.last.relevance == pytest.approx({n: S[n] / sum(S.values()) for n in SOURCES})
    trained = {}
    for job, answer in zip(played.jobs, played.answers, strict=True):
        if job.task.name == "train" and isinstance(answer, Reply) and answer.parts:
            trained[job.client] = answer.parts["extractor"]
    assert_close(played.model.extractor, weighted_mean(trained, dict(played.last.relevance)))


def test_sfda_sends_no_model_twice() -> None:
    played = sfda(rounds=1)
    assert all(played.received("centroids", n) == {} for n in SOURCES)
    assert played.received("weighted_vote", TARGET) == {}
    later = sfda(rounds=2)
    assert all(later.received(job.task.name, TARGET) == {} for job in later.jobs)
    assert {job.client for job in later.jobs} == {TARGET}


def test_sfda_teaches_one_model_and_then_freezes_its_predictor() -> None:
    first, second = sfda(rounds=1), sfda(rounds=2)
    assert set(first.model.parts) == {"extractor", "predictor"}
    assert_close(first.model.predictor, first.sent("distill", "predictor")[TARGET], 0)
    assert_close(parameters(second.model.predictor), parameters(first.model.predictor), 0)
    assert isinstance(second.model, Model)
    moved = set(second.model.extractor) - set(statistics(second.model.extractor))
    assert any(not torch.equal(second.model.extractor[k], first.model.extractor[k]) for k in moved)
