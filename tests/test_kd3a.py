"""KD3A step by step: what is asked and sent, the loss, the weights, and the consensus extractor, each recomputed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from galafed.algorithms.kd3a import Kd3a, Settings
from galafed.config import resolve
from galafed.consensus_focus import consensus_focus, knowledge_vote
from galafed.distillation import consensus, consensus_loss, distill, weighted_vote
from galafed.errors import ConfigError
from galafed.loops import Bench, Images, set_modes, sweep
from galafed.model import Model, statistics, weighted_mean
from galafed.networks.small_cnn import SmallCnn
from galafed.training import Training
from galafed.work import Batch, Mixed
from test_algorithms import SOURCES, TARGET, Played, assert_close, play


def kd3a(rounds: int = 1, **my: Any) -> Played:
    return play("kd3a", rounds=rounds, precision="float64", kd3a=my)


def test_round_asks_for_training_then_the_vote_then_distillation() -> None:
    asked = [(job.task.name, job.client) for job in kd3a().jobs]
    assert asked == [*(("train", n) for n in SOURCES), ("consensus", TARGET), ("distill", TARGET)]


def test_every_predictor_starts_from_numbers_of_its_own_and_is_never_averaged() -> None:
    played = kd3a(rounds=2)
    first = played.parts.algorithm.start(played.parts.federation, played.parts.network.initial(0, torch.float64))
    starts = [first.parts[f"predictor:{n}"]["full2.weight"] for n in SOURCES] + [first.predictor["full2.weight"]]
    assert all(not torch.equal(a, b) for i, a in enumerate(starts) for b in starts[:i])
    trained = played.sent("train", "predictor")
    for n in SOURCES:
        assert_close(played.model.parts[f"predictor:{n}"], trained[n], 0)
    assert_close(played.model.predictor, played.sent("distill", "predictor")[TARGET], 0)


def test_a_predictor_goes_up_and_never_comes_back_down() -> None:
    played = kd3a(rounds=2)
    for n in SOURCES:
        assert set(played.received("train", n)) == {"extractor"}
    assert set(played.received("distill", TARGET)) == {"extractor"}
    assert set(played.received("consensus", TARGET)) == {
        f"{p}:{n}" for n in SOURCES for p in ("extractor", "predictor")
    }


@pytest.mark.parametrize("rule", ["average", "target"])
def test_consensus_extractor_is_the_weighted_mean_of_all_models(rule: str) -> None:
    played = kd3a(rounds=2, gate_start=0.3, gate_end=0.4, statistics=rule)
    own = played.sent("distill", "extractor")[TARGET]
    w = {n: float(value) for n, value in played.model.parts["weights"].items()}
    assert sum(w.values()) == pytest.approx(1)
    expected = weighted_mean({**played.sent("train", "extractor"), TARGET: own}, w)
    assert_close(played.model.extractor, expected | (statistics(own) if rule == "target" else {}))


def test_weights_follow_the_focus_and_keep_nine_tenths_of_the_old() -> None:
    class Fed:
        target = "t"

    algorithm = Kd3a(Settings(), Training(), rounds=10)
    fed: Any = Fed()
    kept = torch.tensor(0.6)
    first = algorithm._weights(fed, Model({}), {"a": 3.0, "b": 1.0}, kept)
    # w_T = .6 / 3, and the rest is shared 3 : 1
    assert first == pytest.approx({"a": 0.6, "b": 0.2, "t": 0.2})
    old = Model({"weights": {n: torch.tensor(v) for n, v in {"a": 0.5, "b": 0.4, "t": 0.1}.items()}})
    second = algorithm._weights(fed, old, {"a": 3.0, "b": 1.0}, kept)
    assert second == pytest.approx({"a": 0.51, "b": 0.38, "t": 0.11})
    nobody = algorithm._weights(fed, Model({}), {"a": 0.0, "b": 0.0}, torch.tensor(0.0))
    assert nobody == pytest.approx({"a": 0.5, "b": 0.5, "t": 0.0})


def test_gate_rises_from_the_first_round_on() -> None:
    gates = [outcome.notes["gate"] for outcome in play("kd3a", rounds=3).outcomes]
    assert gates == pytest.approx([0.9, 0.9 + 0.05 / 3, 0.9 + 0.1 / 3])


@pytest.mark.parametrize("key", ["gate_start", "gate_end"])
@pytest.mark.parametrize("value", [0, 1, -0.5, 1.5, float("nan")])
def test_gate_outside_its_range_is_refused(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"kd3a\.{key} = .*between 0 and 1"):
        resolve({"benchmark": "toy", "algorithm": "kd3a", "kd3a": {key: value}})


def test_consensus_loss_by_hand() -> None:
    logits = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 1.0, 3.0]], dtype=torch.float64)
    logp = logits.log_softmax(dim=1)
    rows = {"consensus": torch.tensor([0, 2, 1]), "kept": torch.tensor([True, False, True])}
    batch = Batch(torch.zeros(3), rows=rows)
    plain = -(logp[0, 0] + logp[2, 1]) / 3
    torch.testing.assert_close(consensus_loss({"logits": logits}, batch), plain)
    others = Mixed(0.7, None, {"consensus": torch.tensor([1, 0, 2]), "kept": torch.tensor([False, True, True])})
    mixed = Batch(torch.zeros(3), rows=rows, mixed=others)
    # the weight is that of x, not of x'
    expected = -(0.7 * (logp[0, 0] + logp[2, 1]) + 0.3 * (logp[0, 1] + logp[2, 2])) / 3
    torch.testing.assert_close(consensus_loss({"logits": logits}, mixed), expected)


def bench() -> Bench:
    return Bench(SmallCnn(classes=3, image_size=8), torch.device("cpu"), torch.float64)


def some_images(count: int) -> Images:
    rng = torch.Generator().manual_seed(1)
    return Images(torch.randint(0, 256, (count, 8, 8, 3), generator=rng, dtype=torch.uint8))


def models(place: Bench, names: tuple[str, ...]) -> dict[str, Any]:
    parts = [f"{part}:{n}" for n in names for part in ("extractor", "predictor")]
    found = {part: place.network.fresh(part, 3, torch.float64) for part in parts}
    for part, state in found.items():  # surer of themselves than untrained networks are
        if part.startswith("predictor"):
            state["full2.weight"] *= 6
    return found


def test_consensus_task_asks_every_model_in_batches_with_their_own_statistics() -> None:
    place, data, names = bench(), some_images(12), ("a", "b", "c")
    states = models(place, names)
    task = consensus(sources=list(names), gate=0.9, form="auto", seed=1, batch_size=32)
    swept = sweep(task.work, place, data, states, stream=(1,))  # type: ignore[arg-type]

    modules = place.modules(states)
    set_modes(modules, dict.fromkeys(modules, "no_dropout"))
    x = place.batch(data, slice(None), labelled=False).images
    with torch.no_grad():
        p = torch.stack([modules[f"predictor:{n}"](modules[f"extractor:{n}"](x)).softmax(1) for n in names], dim=1)
    confidence, vote = p.max(dim=2)
    expected = knowledge_vote(confidence, vote, gate=0.9, classes=3)
    assert 0 < expected.kept.sum() < 12
    assert torch.equal(swept.rows["consensus"], expected.label)
    assert torch.equal(swept.rows["kept"], expected.kept)
    focus = consensus_focus(confidence, vote, gate=0.9, classes=3)
    torch.testing.assert_close(swept.parts["focus"]["focus"], focus)
    torch.testing.assert_close(swept.parts["focus"]["kept"], expected.kept.double().mean())


def test_weighted_vote_is_the_argmax_of_the_mixture() -> None:
    place, data = bench(), some_images(10)
    states = models(place, ("a", "b"))
    task = weighted_vote(weights={"a": 0.9, "b": 0.1}, batch_size=16)
    found = sweep(task.work, place, data, states, stream=(1,)).rows  # type: ignore[arg-type]
    modules = place.modules(states)
    set_modes(modules, dict.fromkeys(modules, "no_dropout"))
    x = place.batch(data, slice(None), labelled=False).images
    with torch.no_grad():
        a, b = (modules[f"predictor:{n}"](modules[f"extractor:{n}"](x)).softmax(1) for n in "ab")
    assert torch.equal(found["consensus"], (0.9 * a + 0.1 * b).argmax(1))
    assert found["kept"].all()


def test_without_any_kept_image_the_target_learns_nothing_but_decays() -> None:
    task = distill(
        mixup=0.0,
        lr=0.1,
        momentum=0.0,
        weight_decay=0.0,
        persistent=False,
        extractor_rate=1.0,
        batch_size=8,
        epochs=1,
        hold="x",
    )
    place, data = bench(), some_images(8)
    from galafed.loops import fit

    states = {part: place.network.fresh(part, 1, torch.float64) for part in ("extractor", "predictor")}
    rows = {"": {"consensus": torch.zeros(8, dtype=torch.int64), "kept": torch.zeros(8, dtype=torch.bool)}}
    done = fit(task.work, place, data, states, stream=(1,), momentum={}, rows=rows)  # type: ignore[arg-type]
    for part in states:
        for name in set(states[part]) - set(statistics(states[part])):
            assert torch.equal(done.states[part][name], states[part][name])
