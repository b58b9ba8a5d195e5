"""The contract every algorithm keeps, blindness to the target's labels, and each switch of GALA."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from galafed.algorithms.base import Outcome, algorithms
from galafed.benchmarks.base import Domain, Split
from galafed.benchmarks.toy import Toy
from galafed.client import Client
from galafed.config import resolve
from galafed.engines.serial import Serial
from galafed.errors import ConfigError
from galafed.federation import Federation
from galafed.messages import Failure, Job, Reply
from galafed.model import Model, State, digest, statistics, weighted_mean
from galafed.runs.assembly import Assembly, assemble
from galafed.runs.evaluation import Evaluation
from galafed.traffic import EVALUATION
from galafed.work import Readout

NAMES = algorithms.names()
SOURCES = ("bright", "dark", "faint", "inverted")
TARGET = "noisy"
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NAMES),
    ("source_only", {"pooled": True}),
    ("source_only", {"statistics": "target"}),
    ("source_only", {"pooled": True, "statistics": "target"}),
    ("kd3a", {"statistics": "average", "gate_start": 0.4, "gate_end": 0.5}),
    ("sfda", {"merge": "parameters"}),
    ("fact", {"two_heads": False}),
    ("fact", {"train_all": True}),
    ("gala", {"group_predictors": "outputs"}),
    ("gala", {"igd": False}),
]
QUICK: dict[str, dict[str, Any]] = {
    "shot": {"source_epochs": 2},
    "sfda": {"source_epochs": 2, "merge_epochs": 2},
}
"""Systems that train at length before their first round train shortly in tests; each epoch does the same anew."""


@dataclass(frozen=True)
class Played:
    """What rounds of an algorithm left, and every job and answer on the way."""

    outcomes: list[Outcome]
    evaluations: list[Evaluation]
    parts: Assembly
    jobs: list[Job]
    answers: list[Reply | Failure]
    bytes: list[dict[str, int]]

    @property
    def last(self) -> Outcome:
        return self.outcomes[-1]

    @property
    def model(self) -> Model:
        return self.last.model

    def digests(self) -> list[str]:
        """Of every round, the model to go on with and the model to test."""
        return [(o.tested or o.model).digest() + o.model.digest() for o in self.outcomes]

    def sent(self, task: str, part: str) -> dict[str, State]:
        """What each client sent as `part` in answer to a task, in the last round."""
        pairs = zip(self.jobs, self.answers, strict=True)
        return {j.client: a.parts[part] for j, a in pairs if j.task.name == task and isinstance(a, Reply)}

    def received(self, task: str, client: str) -> dict[str, State]:
        """What a client received for a task, in the last round."""
        payload = [job.payload for job in self.jobs if job.task.name == task and job.client == client][-1]
        return {part: state for part, state in payload.items() if isinstance(state, dict)}


def play(name: str, *, rounds: int = 1, training: dict[str, Any] | None = None, **values: Any) -> Played:
    """Rounds of an algorithm on toy; `values` are run settings, or the algorithm's if under its name."""
    settings = QUICK.get(name, {}) | values.pop(name, {})
    config = resolve(
        {"benchmark": "toy", "device": "cpu", "algorithm": name, "training": training or {}, name: settings, **values}
    )
    return play_with(assemble(config), config.seed, rounds)


@cache
def two_rounds(name: str, **settings: Any) -> Played:
    """Two rounds of a variant on toy as it is, played once a process; nobody may change what they left."""
    return play(name, rounds=2, **{name: settings})


def play_with(parts: Assembly, seed: int, rounds: int) -> Played:
    jobs: list[Job] = []
    answers: list[Reply | Failure] = []
    dispatch = parts.engine.dispatch

    def listening(asked: Sequence[Job], *rest: Any) -> list[Reply | Failure]:
        done = dispatch(asked, *rest)
        if asked[0].task.name != EVALUATION:  # what is measured of a method is no part of it
            jobs.extend(asked)
            answers.extend(done)
        return done

    parts.engine.dispatch = listening  # type: ignore[method-assign]
    fed = parts.federation
    played = Played([], [], parts, jobs, answers, [])
    model = parts.algorithm.start(fed, parts.network.initial(seed, parts.dtype))
    for number in range(rounds):
        jobs.clear()
        answers.clear()
        fed.begin_round(number)
        outcome = parts.algorithm.round(fed, model)
        played.outcomes.append(outcome)
        played.evaluations.append(parts.evaluator(outcome.tested or outcome.model))
        played.bytes.append(fed.traffic.totals(sources=fed.sources, target=fed.target))
        model = outcome.model
    return played


def gala(
    *, rounds: int = 1, training: dict[str, Any] | None = None, run: dict[str, Any] | None = None, **my: Any
) -> Played:
    """Rounds of GALA with some switches."""
    return play("gala", rounds=rounds, training=training, gala=my, **run or {})


def readout(played: Played) -> Readout:
    """How the tested model is read."""
    return played.parts.algorithm.readout(played.parts.federation.domains)


def change_data(monkeypatch: pytest.MonkeyPatch, change: Callable[[str, Split], Split]) -> None:
    """Make toy hand out other training data."""
    load = Toy.load

    def changed(self: Toy, domain: str) -> Domain:
        whole = load(self, domain)
        return dataclasses.replace(whole, train=change(domain, whole.train))

    monkeypatch.setattr(Toy, "load", changed)


def pick(split: Split, keep: Any) -> Split:
    return Split(images=split.images[keep], labels=split.labels[keep])


def parameters(state: State) -> State:
    return {name: value for name, value in state.items() if name not in statistics(state)}


def assert_close(one: State, two: State, tolerance: float = 1e-12) -> None:
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(
            one[name], two[name], rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


def assert_sound(played: Played) -> None:
    """Every number is finite, relevance sums to 1, bytes are counted."""
    for outcome, evaluation, totals in zip(played.outcomes, played.evaluations, played.bytes, strict=True):
        assert math.isfinite(outcome.loss)
        assert outcome.discrepancy is None or 0 <= outcome.discrepancy <= 2
        assert np.isfinite(np.hstack(dataclasses.astuple(evaluation))).all()
        assert 0 <= evaluation.accuracy <= 1
        assert not outcome.relevance or sum(outcome.relevance.values()) == pytest.approx(1)
        assert all(w >= 0 for w in outcome.relevance.values())
        assert totals["server"] > 0
        assert totals["server"] >= totals["target"] + totals["source"]
        for state in (outcome.tested or outcome.model).parts.values():
            assert all(bool(torch.isfinite(value).all()) for value in state.values())


# The contract


@pytest.mark.parametrize("name", NAMES)
def test_algorithm_is_registered_with_a_description_and_frozen_settings(name: str) -> None:
    algorithm = algorithms.get(name)
    assert algorithm.name == name
    assert algorithm.kind in ("federated", "central", "bound")
    assert algorithm.paper
    assert algorithm.sends
    assert algorithm.__doc__
    assert dataclasses.is_dataclass(algorithm.Settings)
    assert algorithm.Settings.__dataclass_params__.frozen
    assert algorithm.Settings.__doc__


@pytest.mark.parametrize("name", NAMES)
def test_settings_come_from_plain_values_and_unknown_keys_are_refused_by_name(name: str) -> None:
    Settings = algorithms.get(name).Settings
    plain = dataclasses.asdict(Settings())
    assert resolve({"benchmark": "toy", "algorithm": name, name: plain}).settings == Settings()
    with pytest.raises(ConfigError, match=f"{name}.nonsense"):
        resolve({"benchmark": "toy", "algorithm": name, name: {"nonsense": 1}})
    for key in plain:
        with pytest.raises(ConfigError, match=key):
            resolve({"benchmark": "toy", "algorithm": name, name: {key: ["neither", "text", "nor", "number"]}})


@pytest.mark.parametrize("key", ["tau", "igd_scale"])
@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf])
def test_settings_that_must_be_positive_are(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"gala.{key}"):
        resolve({"benchmark": "toy", "algorithm": "gala", "gala": {key: value}})


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_rounds_run_with_any_number_of_sources(name: str, settings: dict[str, Any], count: int) -> None:
    if count < algorithms.get(name).fewest_sources:
        with pytest.raises(ConfigError, match=f"{name} needs at least {algorithms.get(name).fewest_sources} sources"):
            play(name, sources=list(SOURCES[:count]))
        return
    if count == len(SOURCES):
        played = two_rounds(name, **settings)
    else:
        played = play(name, rounds=2, sources=list(SOURCES[:count]), **{name: settings})
    assert_sound(played)
    assert not played.parts.federation.failures
    assert played.model.digest() != played.outcomes[0].model.digest()
    tested = (played.last.tested or played.model).parts
    for part in played.parts.algorithm.readout(played.parts.federation.domains).parts:
        assert {n: v.shape for n, v in tested[part].items()} == {
            n: s for n, (s, _) in played.parts.network.schema(part).items()
        }


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_gives_the_same_bits_and_another_seed_others(name: str) -> None:
    expected = two_rounds(name).digests()
    torch.rand(5)
    assert play(name, rounds=2).digests() == expected
    assert play(name, seed=1).digests() != expected[:1]


@pytest.mark.parametrize("name", NAMES)
def test_round_leaves_the_model_it_starts_from_and_the_global_generator_alone(name: str) -> None:
    parts = assemble(resolve({"benchmark": "toy", "device": "cpu", "algorithm": name}))
    model = parts.algorithm.start(parts.federation, parts.network.initial(0))
    before, generator = model.digest(), torch.get_rng_state()
    parts.federation.begin_round(0)
    parts.algorithm.round(parts.federation, model)
    assert model.digest() == before
    assert torch.equal(torch.get_rng_state(), generator)


@pytest.mark.parametrize("name", NAMES)
def test_tested_model_has_the_heads_the_evaluator_is_told_of(name: str) -> None:
    played = two_rounds(name)
    tested = played.last.tested or played.model
    assert set(readout(played).parts) <= set(tested.parts)


# Difficult data


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
@pytest.mark.parametrize("where", ["dark", TARGET])
def test_class_missing_from_a_domain(
    name: str, settings: dict[str, Any], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_data(monkeypatch, lambda d, s: pick(s, s.labels != 1) if d == where else s)
    assert_sound(play(name, rounds=2, **{name: settings}))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", ["dark", TARGET])
def test_domain_with_a_single_class(name: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change_data(monkeypatch, lambda d, s: pick(s, s.labels == 2) if d == where else s)
    assert_sound(play(name, rounds=2))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [2, 3, 17])
def test_sizes_that_leave_a_small_last_batch(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    change_data(monkeypatch, lambda d, s: pick(s, slice(count)))
    played = play(name, rounds=2)
    assert_sound(played)
    assert not played.parts.federation.failures


@pytest.mark.parametrize("name", ["gala", "fact", "source_only"])
def test_source_with_one_image_is_left_out_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change_data(monkeypatch, lambda d, s: pick(s, slice(1)) if d == "dark" else s)
    played = play(name, sources=["bright", "dark"])
    assert_sound(played)
    assert [(f.client, f.kind) for f in played.parts.federation.failures] == [("dark", "refused")]
    assert set(played.last.relevance) == {"bright"}


# Label blindness


def scramble(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(domain: str, split: Split) -> Split:
        if domain != TARGET:
            return split
        return dataclasses.replace(split, labels=np.random.default_rng(1).integers(0, 3, len(split)))

    change_data(monkeypatch, change)


@pytest.mark.parametrize(("name", "settings"), [v for v in VARIANTS if v[0] != "oracle"])
def test_targets_training_labels_change_no_bit(
    name: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = two_rounds(name, **settings)
    scramble(monkeypatch)
    found = play(name, rounds=2, **{name: settings})
    assert found.digests() == expected.digests()
    assert found.evaluations == expected.evaluations
    assert [dict(o.notes) for o in found.outcomes] == [dict(o.notes) for o in expected.outcomes]


def test_targets_training_labels_do_change_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = play("oracle").digests()
    scramble(monkeypatch)
    assert play("oracle").digests() != expected


def test_only_the_oracle_sees_the_targets_labels() -> None:
    assert [name for name in NAMES if algorithms.get(name).sees_target_labels] == ["oracle"]
    for name in NAMES:
        engine = assemble(resolve({"benchmark": "toy", "device": "cpu", "algorithm": name})).engine
        assert isinstance(engine, Serial)
        assert (engine.clients[TARGET].data.labels is not None) == (name == "oracle")


# GALA, step by step


def test_gala_asks_what_algorithm_1_says_in_its_order() -> None:
    played = gala()
    asked = [(job.task.name, job.client) for job in played.jobs]
    assert asked == [
        *(("centroids", n) for n in sorted((*SOURCES, TARGET))),
        *(("train", n) for n in SOURCES),
        *(("tune", n) for n in SOURCES),
        ("align", TARGET),
    ]


def test_gala_consensus_and_group_predictors_are_the_weighted_means() -> None:
    played = gala(run={"precision": "float64"})
    w, halves = played.last.relevance, played.last.notes["groups"]
    consensus = weighted_mean(played.sent("train", "extractor"), w)
    for source in SOURCES:
        assert digest(played.received("tune", source)) == digest({"extractor": consensus})
    received = played.received("align", TARGET)
    assert digest({"e": received["extractor"]}) == digest({"e": consensus})
    F = played.sent("tune", "predictor")
    for k, half in enumerate(halves, start=1):
        total = sum(w[n] for n in half)
        expected = weighted_mean({n: F[n] for n in half}, {n: w[n] / total for n in half})
        assert_close(received[f"predictor:{k}"], expected)
    assert digest({"e": played.model.extractor}) == digest({"e": played.sent("align", "extractor")[TARGET]})


def test_gala_training_starts_from_the_broadcast_model_and_predictor_from_the_clients_own() -> None:
    first = gala()
    model = first.parts.network.initial(0)
    for source in SOURCES:  # sent once, for the centroids; local training finds it at the client
        assert digest(first.received("centroids", source)) == digest(model.parts)
        assert first.received("train", source) == {}


@pytest.mark.parametrize(
    "settings", [{}, {"head_statistics": "source"}, {"group_predictors": "outputs"}, {"igd": False}]
)
def test_gala_predictor_is_the_relevance_weighted_mean(settings: dict[str, Any]) -> None:
    played = gala(run={"precision": "float64"}, **settings)
    expected = weighted_mean(played.sent("tune", "predictor"), played.last.relevance)
    assert_close(parameters(played.model.predictor), parameters(expected))


def test_gala_predictor_does_not_depend_on_the_split(monkeypatch: pytest.MonkeyPatch) -> None:
    found, alignments = [], set()
    for halves in ([("bright", "dark"), ("faint", "inverted")], [("bright", "faint", "inverted"), ("dark",)]):
        monkeypatch.setattr("galafed.algorithms.gala.random_halves", lambda *_, h=halves, **__: h)
        played = gala(run={"precision": "float64"})
        assert played.last.notes["groups"] == [list(half) for half in halves]
        found.append(parameters(played.model.predictor))
        alignments.add(digest({"e": played.model.extractor}))
    assert_close(found[0], found[1])
    assert len(alignments) == 2  # the extractor does depend on it


# GALA's switches


@pytest.mark.parametrize("tau", [0.2, 1.0, 3.0])
def test_relevance_follows_its_rule(tau: float) -> None:
    found = {rule: gala(relevance=rule, tau=tau).last for rule in ("uniform", "mdmgb", "mdmgb+")}
    S = found["mdmgb+"].notes["similarity"]
    assert all(outcome.notes["similarity"] == S for outcome in found.values())
    assert found["uniform"].relevance == pytest.approx(dict.fromkeys(SOURCES, 1 / 4))
    assert found["mdmgb"].relevance == pytest.approx({n: s / sum(S.values()) for n, s in S.items()})
    total = sum(math.exp(tau * s) for s in S.values())
    assert found["mdmgb+"].relevance == pytest.approx({n: math.exp(tau * s) / total for n, s in S.items()})
    assert len({outcome.model.digest() for outcome in found.values()}) == 3


def test_larger_tau_is_sharper() -> None:
    largest = [max(gala(tau=tau).last.relevance.values()) for tau in (1e-9, 1.0, 100.0)]
    assert largest[0] == pytest.approx(0.25)
    assert largest[0] < largest[1] < largest[2]


def test_tau_does_not_matter_without_the_softmax() -> None:
    for rule in ("uniform", "mdmgb"):
        assert gala(relevance=rule, tau=0.2).digests() == gala(relevance=rule, tau=5.0).digests()


def test_igd_off_moves_statistics_alone() -> None:
    played = gala(igd=False)
    received = played.received("align", TARGET)["extractor"]
    assert digest({"e": parameters(played.model.extractor)}) == digest({"e": parameters(received)})
    assert digest({"e": statistics(played.model.extractor)}) != digest({"e": statistics(received)})
    assert played.last.discrepancy is None


def test_igd_on_moves_the_extractor() -> None:
    played = gala()
    received = played.received("align", TARGET)["extractor"]
    assert digest({"e": parameters(played.model.extractor)}) != digest({"e": parameters(received)})
    assert played.last.discrepancy is not None
    assert 0 < played.last.discrepancy <= 2


def test_igd_scale_changes_the_step_and_not_the_discrepancy_it_reports() -> None:
    assert gala(igd_scale=0.1).digests() != gala(igd_scale=1.0).digests()
    still = {"lr": 1e-9}
    one, tenth = (gala(igd_scale=scale, training=still).last.discrepancy for scale in (1.0, 0.1))
    assert tenth == pytest.approx(one, rel=1e-4)
    alone = [gala(igd_scale=scale, igd=False).digests() for scale in (1.0, 0.1)]
    assert alone[0] == alone[1]


def test_igd_dropout_changes_the_extractor_and_not_the_heads() -> None:
    on, off = (gala(igd_dropout=dropout).model for dropout in (True, False))
    assert digest({"e": on.extractor}) != digest({"e": off.extractor})
    assert digest({"f": parameters(on.predictor)}) == digest({"f": parameters(off.predictor)})


def test_outputs_average_changes_the_alignment_and_not_the_predictor() -> None:
    precise = {"precision": "float64"}
    parameter, output = (gala(group_predictors=g, run=precise) for g in ("parameters", "outputs"))
    assert set(output.received("align", TARGET)) == {"extractor", *(f"predictor:{n}" for n in SOURCES)}
    assert set(parameter.received("align", TARGET)) == {"extractor", "predictor:1", "predictor:2"}
    assert_close(parameters(parameter.model.predictor), parameters(output.model.predictor))
    assert digest({"e": parameter.model.extractor}) != digest({"e": output.model.extractor})


def test_outputs_and_parameters_average_are_the_same_for_two_sources() -> None:
    two = {"precision": "float64", "sources": ["bright", "inverted"]}
    parameter, output = (gala(group_predictors=g, igd_dropout=False, run=two).model for g in ("parameters", "outputs"))
    for part in ("extractor", "predictor"):
        assert_close(parameter.parts[part], output.parts[part])


def test_head_statistics_come_from_where_the_switch_says() -> None:
    source, target = (gala(head_statistics=whose) for whose in ("source", "target"))
    assert digest({"e": source.model.extractor}) == digest({"e": target.model.extractor})
    assert digest({"f": parameters(source.model.predictor)}) == digest({"f": parameters(target.model.predictor)})
    tuned = statistics(weighted_mean(source.sent("tune", "predictor"), source.last.relevance))
    assert_close(statistics(source.model.predictor), tuned, 1e-5)
    share = {str(k): sum(target.last.relevance[n] for n in g) for k, g in enumerate(target.last.notes["groups"], 1)}
    seen = weighted_mean({k: target.sent("align", f"statistics:{k}")[TARGET] for k in share}, share)
    assert digest({"s": statistics(target.model.predictor)}) == digest({"s": seen})
    assert digest({"s": statistics(source.model.predictor)}) != digest({"s": seen})


def test_head_statistics_from_the_sources_make_the_target_ask_for_the_model() -> None:
    source, target = (gala(rounds=2, head_statistics=whose) for whose in ("source", "target"))
    assert set(source.received("centroids", TARGET)) == {"extractor", "predictor"}
    assert target.received("centroids", TARGET) == {}


def test_unbalanced_split_leaves_no_group_empty_and_reaches_other_sizes() -> None:
    sizes = [
        sorted(len(group) for group in outcome.notes["groups"]) for outcome in gala(rounds=8, balanced=False).outcomes
    ]
    assert set(map(tuple, sizes)) == {(2, 2), (1, 3)}
    balanced = [sorted(map(len, outcome.notes["groups"])) for outcome in gala(rounds=4).outcomes]
    assert balanced == [[2, 2]] * 4


def test_groups_change_from_round_to_round() -> None:
    assert len({str(outcome.notes["groups"]) for outcome in gala(rounds=6).outcomes}) > 1


def test_single_source_is_cut_into_two_clients() -> None:
    played = gala(run={"sources": ["bright"]})
    assert played.parts.federation.sources == ("bright#1", "bright#2")
    assert played.last.discrepancy is not None
    engine = played.parts.engine
    assert isinstance(engine, Serial)
    both = torch.cat([engine.clients[f"bright#{k}"].data.images for k in (1, 2)])
    whole = torch.from_numpy(Toy().load("bright").train.images)
    assert sorted(map(str, both.flatten(1).tolist())) == sorted(map(str, whole.flatten(1).tolist()))


@pytest.mark.parametrize(
    "training",
    [
        {"bn_variance": "mixture"},
        {"persistent_momentum": True},
        {"extractor_rate": 0.25},
        {"epochs": 2},
        {"schedule": "constant"},
    ],
)
@pytest.mark.parametrize("name", ["gala", "fact"])
def test_training_switches_change_the_result(name: str, training: dict[str, Any]) -> None:
    played = play(name, rounds=2, training=training)
    assert_sound(played)
    assert played.digests()[-1] != two_rounds(name).digests()[-1]


def test_variance_rule_changes_no_parameter_of_a_first_round() -> None:
    linear, mixture = (gala(training={"bn_variance": rule}).model for rule in ("linear", "mixture"))
    for part in ("extractor", "predictor"):
        assert digest({"p": parameters(linear.parts[part])}) == digest({"p": parameters(mixture.parts[part])})
        assert digest({"p": linear.parts[part]}) != digest({"p": mixture.parts[part]})


# GALA and FACT


@pytest.mark.parametrize("seed", range(4))
def test_gala_with_two_equally_relevant_sources_is_fact(seed: int) -> None:
    """Two groups of one head are a pair; which head is called the first is drawn, so dropout masks may swap."""
    same = {"sources": ["bright", "inverted"], "precision": "float64", "seed": seed}
    ours = play("gala", gala={"relevance": "uniform", "igd_dropout": False}, **same)
    theirs = play("fact", fact={"idd_dropout": False}, **same)
    for part in ("extractor", "predictor"):
        assert_close(ours.model.parts[part], theirs.model.parts[part])
    assert ours.last.discrepancy == pytest.approx(theirs.last.discrepancy, rel=1e-12)
    assert ours.last.loss == theirs.last.loss


def test_gala_in_the_order_of_the_pair_is_fact_with_dropout_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("galafed.algorithms.gala.random_halves", lambda names, *_, **__: [(n,) for n in names])
    same = {"sources": ["bright", "inverted"]}
    ours, theirs = play("gala", gala={"relevance": "uniform"}, **same), play("fact", **same)
    assert ours.model.digest() == theirs.model.digest()


def test_fact_asks_two_sources_a_round_and_tests_with_both_heads() -> None:
    played = play("fact", rounds=6)
    pairs = {tuple(outcome.notes["pair"]) for outcome in played.outcomes}
    assert all(len(pair) == 2 for pair in pairs)
    assert len(pairs) > 2
    assert readout(played).paths == (("extractor", "predictor:1"), ("extractor", "predictor:2"))
    tested = played.last.tested
    assert tested is not None
    merged = weighted_mean({k: tested.parts[f"predictor:{k}"] for k in "12"}, {"1": 0.5, "2": 0.5})
    assert digest({"f": merged}) == digest({"f": played.model.predictor})
    assert readout(play("fact", fact={"two_heads": False})) == Readout()


def test_fact_with_all_sources_trained_compares_a_pair_of_them_and_averages_all() -> None:
    played = play("fact", rounds=4, fact={"train_all": True})
    assert {job.client for job in played.jobs if job.task.name == "train"} == set(SOURCES)
    pairs = {tuple(outcome.notes["pair"]) for outcome in played.outcomes}
    assert all(len(pair) == 2 for pair in pairs)
    assert len(pairs) > 1
    equal = dict.fromkeys(SOURCES, 1.0)
    G = weighted_mean(played.sent("train", "extractor"), equal)
    F = weighted_mean(played.sent("tune", "predictor"), equal)
    received = played.received("align", TARGET)
    assert digest({"g": received["extractor"]}) == digest({"g": G})
    assert digest({"f": parameters(F)}) == digest({"f": parameters(played.model.predictor)})
    first, second = played.last.notes["pair"]
    assert digest({"f": received["predictor:1"]}) == digest({"f": played.sent("tune", "predictor")[first]})
    assert digest({"f": received["predictor:2"]}) == digest({"f": played.sent("tune", "predictor")[second]})


def test_with_two_sources_all_of_them_are_the_pair() -> None:
    two = {"sources": ["bright", "inverted"]}
    assert play("fact", fact={"train_all": True}, **two).digests() == play("fact", **two).digests()


# Equal sources


class Twins(Serial):
    """Every source is the same client under another name: same data, same random stream."""

    def __init__(self, *, bench: Any, data: Any, seed: int) -> None:
        super().__init__(bench=bench, data=data, seed=seed)
        for name in SOURCES:
            self.clients[name] = Client("twin", data["bright"])

    def dispatch(self, jobs: Sequence[Job], timeout: float | None, progress: Any) -> list[Reply | Failure]:
        answers = super().dispatch(jobs, timeout, progress)
        return [dataclasses.replace(a, client=j.client) for j, a in zip(jobs, answers, strict=True)]


@pytest.mark.parametrize("rule", ["mdmgb", "mdmgb+"])
@pytest.mark.parametrize("dropout", [False, True])
def test_equal_sources_are_equally_relevant_and_do_not_disagree(rule: str, dropout: bool) -> None:
    config = resolve(
        {
            "benchmark": "toy",
            "device": "cpu",
            "algorithm": "gala",
            "gala": {"relevance": rule, "igd_dropout": dropout},
            "training": {"weight_decay": 0.0},
        }
    )
    parts = assemble(config)
    honest = parts.engine
    assert isinstance(honest, Serial)
    data = {name: client.data for name, client in honest.clients.items()}
    engine = Twins(bench=honest.bench, data=data, seed=0)
    fed = Federation(engine, parts.network, sources=SOURCES, target=TARGET, seed=0)
    played = play_with(dataclasses.replace(parts, engine=engine, federation=fed), 0, 2)
    for outcome in played.outcomes:
        assert outcome.relevance == pytest.approx(dict.fromkeys(SOURCES, 0.25), rel=1e-12)
        if dropout:
            assert outcome.discrepancy is not None
            assert outcome.discrepancy > 1e-3  # a mask for each head: a floor that agreement cannot reach
        else:
            assert outcome.discrepancy == 0
    if not dropout:
        received = played.received("align", TARGET)["extractor"]
        assert digest({"e": parameters(played.model.extractor)}) == digest({"e": parameters(received)})


# Bounds


def test_source_only_is_the_plain_mean_of_the_sources() -> None:
    played = play("source_only")
    for part in ("extractor", "predictor"):
        expected = weighted_mean(played.sent("train", part), dict.fromkeys(SOURCES, 1.0))
        assert digest({part: played.model.parts[part]}) == digest({part: expected})
    assert played.last.tested is None
    assert {job.client for job in played.jobs} == set(SOURCES)


def test_target_statistics_change_what_is_tested_and_not_what_is_trained() -> None:
    plain, adapted = (play("source_only", rounds=2, source_only={"statistics": s}) for s in ("source", "target"))
    assert plain.model.digest() == adapted.model.digest()
    tested = adapted.last.tested
    assert tested is not None
    for part in ("extractor", "predictor"):
        assert digest({"p": parameters(tested.parts[part])}) == digest({"p": parameters(plain.model.parts[part])})
        assert digest({"p": tested.parts[part]}) != digest({"p": plain.model.parts[part]})


def test_pooled_sources_are_one_client() -> None:
    played = play("source_only", source_only={"pooled": True})
    engine = played.parts.engine
    assert isinstance(engine, Serial)
    assert set(engine.clients) == {"pooled", TARGET}
    assert len(engine.clients["pooled"].data) == 4 * 48
    assert played.last.relevance == {"pooled": 1.0}


def test_oracle_asks_the_target_alone_and_learns() -> None:
    played = play("oracle", rounds=6)
    assert {job.client for job in played.jobs} == {TARGET}
    assert played.outcomes[-1].loss < played.outcomes[0].loss
