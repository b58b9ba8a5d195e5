"""The seam: replies and named failures, faulty clients, caches, and who may influence whom."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch

from galafed.algorithms.base import Outcome, algorithms
from galafed.config import resolve
from galafed.engines.serial import Serial
from galafed.errors import QuorumError
from galafed.federation import Engine, Federation
from galafed.messages import Failure, Held, Job, Replies, Reply
from galafed.model import Model, digest, weighted_mean
from galafed.runs.assembly import assemble
from galafed.tasks import centroids, train, tune
from galafed.training import Training

SOURCES = ("bright", "dark", "faint", "inverted")
TARGET = "noisy"
SGD = Training(lr=0.02, batch_size=16).sgd(0, 3)

Answer = Reply | Failure
Spoil = Callable[[Job, Reply], Answer]


class Meddling(Engine):
    """A serial engine that lets a test change each reply, reorder jobs, and see every job and answer."""

    def __init__(self, inner: Serial, spoil: Spoil, *, backwards: bool = False) -> None:
        self.inner, self.spoil, self.backwards = inner, spoil, backwards
        self.jobs: list[Job] = []
        self.answers: list[Answer] = []
        self.timeouts: list[float | None] = []

    def dispatch(self, jobs: Sequence[Job], timeout: float | None, progress: Callable[[int], None]) -> list[Answer]:
        self.jobs += jobs
        self.timeouts.append(timeout)
        order = list(reversed(jobs)) if self.backwards else list(jobs)
        answers = self.inner.dispatch(order, timeout, progress)
        done = [self.spoil(j, a) if isinstance(a, Reply) else a for j, a in zip(order, answers, strict=True)]
        self.answers += done
        return done


def honest(job: Job, reply: Reply) -> Answer:
    return reply


def federation(
    spoil: Spoil = honest,
    *,
    sources: Iterable[str] = SOURCES,
    quorum: int = 1,
    timeout: float | None = None,
    backwards: bool = False,
) -> tuple[Federation, Meddling]:
    """Toy clients behind a meddling engine."""
    parts = assemble(resolve({"benchmark": "toy", "device": "cpu", "sources": list(sources)}))
    assert isinstance(parts.engine, Serial)
    engine = Meddling(parts.engine, spoil, backwards=backwards)
    fed = Federation(engine, parts.network, sources=sources, target=TARGET, seed=0, quorum=quorum, timeout=timeout)
    return fed, engine


def first_model(fed: Federation) -> Model:
    return fed.network.initial(0)


def play(
    fed: Federation, name: str, *, rounds: int = 1, training: dict[str, Any] | None = None, **settings: Any
) -> list[Outcome]:
    """Rounds of an algorithm on a federation."""
    values = {"benchmark": "toy", "device": "cpu", "algorithm": name, name: settings, "training": training or {}}
    config = resolve(values)
    algorithm = algorithms.get(name)(config.settings, config.training, rounds=3)
    model = algorithm.start(fed, first_model(fed))
    outcomes = []
    for number in range(rounds):
        fed.begin_round(number)
        outcomes.append(algorithm.round(fed, model))
        model = outcomes[-1].model
    return outcomes


# Asking


def test_replies_come_in_order_of_name_whatever_the_order_of_asking_and_answering() -> None:
    for backwards in (False, True):
        fed, _ = federation(backwards=backwards)
        replies = fed.ask(["inverted", "bright", "faint"], train(**SGD), first_model(fed))
        assert replies.names == ("bright", "faint", "inverted")
        assert list(replies["extractor"]) == ["bright", "faint", "inverted"]
        assert [reply.client for reply in replies] == ["bright", "faint", "inverted"]


def test_order_of_execution_changes_no_bit() -> None:
    results = []
    for backwards in (False, True):
        fed, _ = federation(backwards=backwards)
        results.append([o.model.digest() for o in play(fed, "gala", rounds=2)])
    assert results[0] == results[1]


def test_one_name_may_be_asked_alone() -> None:
    fed, engine = federation()
    assert fed.ask(TARGET, centroids(), first_model(fed)).names == (TARGET,)
    assert [job.client for job in engine.jobs] == [TARGET]


def test_sources_are_kept_in_order_of_name() -> None:
    fed, _ = federation(sources=("inverted", "bright"))
    assert fed.sources == ("bright", "inverted")
    assert fed.everyone == ("bright", "inverted", TARGET)


def test_failures_are_named_and_kept_apart_from_replies() -> None:
    fed, _ = federation()
    replies = fed.ask(fed.everyone, centroids(), first_model(fed))
    assert not replies.failures
    fed.begin_round(1)
    replies = fed.ask(SOURCES, tune(**SGD), {"extractor": first_model(fed).extractor}, need=0)
    assert replies.names == ()
    assert set(replies.failures) == set(SOURCES)
    assert all(f.kind == "refused" and "did not take part" in f.reason for f in replies.failures.values())
    assert {f.client for f in fed.failures} == set(SOURCES)
    fed.begin_round(2)
    assert fed.failures == []


def test_listener_is_told_of_progress() -> None:
    fed, _ = federation(sources=("bright", "dark"))
    told: list[tuple[str, int, int]] = []
    fed.listener = lambda task, done, asked: told.append((task, done, asked))
    fed.ask(fed.sources, centroids(), first_model(fed))
    assert told == [("centroids", 0, 2), ("centroids", 1, 2), ("centroids", 2, 2)]


def test_mean_of_a_metric_is_over_those_who_answered() -> None:
    replies = Replies({n: Reply(n, {}, {"loss": v}, 0.0) for n, v in (("a", 1.0), ("b", 4.0))})
    assert replies.mean("loss") == 2.5


# Quorum


def failing(*names: str, task: str = "train") -> Spoil:
    def spoil(job: Job, reply: Reply) -> Answer:
        if job.client in names and job.task.name == task:
            return Failure(job.client, job.task.name, "lost", "the line went dead")
        return reply

    return spoil


@pytest.mark.parametrize(("quorum", "enough"), [(1, True), (3, True), (4, False), (9, False)])
def test_quorum_counts_the_sources_that_answered(quorum: int, enough: bool) -> None:
    fed, _ = federation(failing("dark"), quorum=quorum)
    if enough:
        assert fed.ask(SOURCES, train(**SGD), first_model(fed)).names == ("bright", "faint", "inverted")
        return
    with pytest.raises(QuorumError, match="dark: train lost: the line went dead") as refused:
        fed.ask(SOURCES, train(**SGD), first_model(fed))
    assert refused.value.exit_code == 5


def test_need_of_a_question_wins_over_the_quorum() -> None:
    fed, _ = federation(failing("dark"), quorum=4)
    assert len(fed.ask(SOURCES, train(**SGD), first_model(fed), need=2).names) == 3
    fed, _ = federation(failing("dark"), quorum=1)
    with pytest.raises(QuorumError):
        fed.ask(SOURCES, train(**SGD), first_model(fed), need=4)


def test_target_does_not_count_as_a_source() -> None:
    fed, _ = federation(failing(*SOURCES, task="centroids"))
    with pytest.raises(QuorumError):
        fed.ask(fed.everyone, centroids(), first_model(fed))


def test_target_that_fails_ends_the_round() -> None:
    fed, _ = federation(failing(TARGET, task="centroids"))
    with pytest.raises(QuorumError, match="noisy: centroids lost"):
        fed.ask(fed.everyone, centroids(), first_model(fed))


# Time


def test_late_reply_is_a_named_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    fed, engine = federation()
    client = engine.inner.clients["dark"]
    execute = client.execute

    def crawl(*arguments: Any) -> Answer:
        answer = execute(*arguments)
        assert isinstance(answer, Reply)
        return dataclasses.replace(answer, seconds=61.0)

    monkeypatch.setattr(client, "execute", crawl)
    replies = fed.ask(SOURCES, train(**SGD), first_model(fed), timeout=60.0)
    assert replies.names == ("bright", "faint", "inverted")
    assert replies.failures["dark"].kind == "late"
    assert "61.0 s" in replies.failures["dark"].reason


def test_time_out_of_a_question_wins_over_that_of_the_federation() -> None:
    fed, engine = federation(timeout=100.0)
    fed.ask(SOURCES, centroids(), first_model(fed))
    fed.ask(SOURCES, centroids(), first_model(fed), timeout=7.0)
    assert engine.timeouts == [100.0, 7.0]


def test_everybody_late_ends_the_round() -> None:
    fed, _ = federation(timeout=1e-9)
    with pytest.raises(QuorumError, match="late"):
        fed.ask(SOURCES, train(**SGD), first_model(fed))


# Faulty clients


def with_tensor(reply: Reply, change: Callable[[torch.Tensor], torch.Tensor]) -> Reply:
    """The reply with its first floating point tensor changed."""
    part = min(reply.parts)
    name = next(n for n, v in reply.parts[part].items() if v.is_floating_point())
    state = reply.parts[part] | {name: change(reply.parts[part][name].clone())}
    return dataclasses.replace(reply, parts={**reply.parts, part: state})


def with_last(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        tensor.view(-1)[-1] = value
        return tensor

    return change


def with_state(reply: Reply, *, drop: bool) -> Reply:
    part = min(reply.parts)
    state = dict(reply.parts[part])
    if drop:
        state.pop(max(state))
    else:
        state["stowaway"] = torch.zeros(2)
    return dataclasses.replace(reply, parts={**reply.parts, part: state})


FAULTS: dict[str, Callable[[Reply], Reply]] = {
    "nan": lambda r: with_tensor(r, with_last(math.nan)),
    "infinity": lambda r: with_tensor(r, with_last(math.inf)),
    "wrong shape": lambda r: with_tensor(r, lambda t: t[..., None]),
    "whole numbers": lambda r: with_tensor(r, torch.Tensor.long),
    "missing key": lambda r: with_state(r, drop=True),
    "extra key": lambda r: with_state(r, drop=False),
    "missing part": lambda r: dataclasses.replace(r, parts={}),
    "extra part": lambda r: dataclasses.replace(r, parts={**r.parts, "images": {"x": torch.zeros(2)}}),
}


def faulty(*names: str, task: str, fault: str) -> Spoil:
    def spoil(job: Job, reply: Reply) -> Answer:
        return FAULTS[fault](reply) if job.client in names and job.task.name == task else reply

    return spoil


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("task", ["centroids", "train", "tune"])
def test_gala_goes_on_without_a_faulty_source(task: str, fault: str) -> None:
    fed, engine = federation(faulty("dark", task=task, fault=fault))
    (outcome,) = play(fed, "gala")
    failure = next(f for f in fed.failures if f.client == "dark")
    assert (failure.task, failure.kind) == (task, "invalid")
    assert "'dark'" in failure.reason
    assert [f.client for f in fed.failures] == ["dark"]
    others = set(SOURCES) - {"dark"}
    assert set(outcome.relevance) == others
    assert sum(outcome.relevance.values()) == pytest.approx(1)
    assert sorted(n for group in outcome.notes["groups"] for n in group) == sorted(others)
    honest_fed, _ = federation()
    (expected,) = play(honest_fed, "gala")
    rest = sum(expected.relevance[n] for n in others)
    assert outcome.relevance == pytest.approx({n: expected.relevance[n] / rest for n in others})
    later = {"centroids": ("train", "tune"), "train": ("tune",), "tune": ()}[task]
    assert not [job for job in engine.jobs if job.client == "dark" and job.task.name in later]
    for state in outcome.model.parts.values():
        assert all(bool(torch.isfinite(value).all()) for value in state.values())


@pytest.mark.parametrize("task", ["centroids", "train"])
def test_gala_with_a_source_faulty_before_the_consensus_equals_gala_without_it(task: str) -> None:
    fed, _ = federation(faulty("dark", task=task, fault="nan"))
    fewer, _ = federation(sources=("bright", "faint", "inverted"))
    (outcome,), (expected,) = play(fed, "gala"), play(fewer, "gala")
    assert outcome.model.digest() == expected.model.digest()
    assert outcome.relevance == pytest.approx(expected.relevance)


def test_gala_with_a_source_faulty_in_fine_tuning_keeps_its_extractor_and_leaves_its_predictor() -> None:
    fed, engine = federation(faulty("dark", task="tune", fault="nan"))
    (outcome,) = play(fed, "gala", relevance="uniform", igd=False, head_statistics="source")
    sent = {(a.client, part): a.parts[part] for a in engine.answers if isinstance(a, Reply) for part in a.parts}
    extractors = {n: sent[n, "extractor"] for n in SOURCES}
    consensus = weighted_mean(extractors, dict.fromkeys(SOURCES, 0.25))
    assert torch.equal(outcome.model.extractor["conv1.weight"], consensus["conv1.weight"])
    heads = {n: sent[n, "predictor"] for n in SOURCES if n != "dark"}
    merged = weighted_mean(heads, dict.fromkeys(heads, 1 / 3))
    torch.testing.assert_close(outcome.model.predictor["full1.weight"], merged["full1.weight"])


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("task", ["train", "tune"])
def test_fact_goes_on_without_a_faulty_source(task: str, fault: str) -> None:
    fed, engine = federation(faulty("dark", task=task, fault=fault), sources=("bright", "dark"))
    (outcome,) = play(fed, "fact")
    assert [(f.client, f.task, f.kind) for f in fed.failures] == [("dark", task, "invalid")]
    assert outcome.relevance == {"bright": 1.0}
    assert outcome.notes["pair"] == ["bright"]
    assert outcome.discrepancy is None
    tuned = next(a for a in engine.answers if a.client == "bright" and isinstance(a, Reply) and "predictor" in a.parts)
    assert torch.equal(outcome.model.predictor["full1.weight"], tuned.parts["predictor"]["full1.weight"])


@pytest.mark.parametrize("name", ["gala", "fact"])
@pytest.mark.parametrize("task", ["train", "tune"])
def test_round_ends_when_every_source_is_faulty(name: str, task: str) -> None:
    fed, _ = federation(faulty(*SOURCES, task=task, fault="nan"))
    with pytest.raises(QuorumError, match="holds NaN or infinity"):
        play(fed, name)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("name", "task"), [("gala", "centroids"), ("gala", "align"), ("fact", "align")])
def test_round_ends_when_the_target_is_faulty(name: str, task: str, fault: str) -> None:
    fed, _ = federation(faulty(TARGET, task=task, fault=fault))
    with pytest.raises(QuorumError, match="noisy"):
        play(fed, name)


def test_all_but_one_source_faulty_leaves_nothing_to_align() -> None:
    fed, _ = federation(faulty("bright", "dark", "faint", task="tune", fault="nan"))
    (outcome,) = play(fed, "gala")
    assert outcome.relevance == {"inverted": 1.0}
    assert outcome.discrepancy is None
    assert outcome.notes["groups"] == [["inverted"]]


@pytest.mark.parametrize("metrics", [{}, {"loss": math.nan}, {"loss": math.inf}])
def test_metric_that_is_missing_or_not_finite_excludes_the_client(metrics: dict[str, float]) -> None:
    def spoil(job: Job, reply: Reply) -> Answer:
        bad = job.client == "dark" and job.task.name == "train"
        return dataclasses.replace(reply, metrics=metrics) if bad else reply

    fed, _ = federation(spoil)
    (outcome,) = play(fed, "gala")
    assert math.isfinite(outcome.loss)
    assert "dark" in [f.client for f in fed.failures]


def test_faulty_reply_is_counted_as_it_did_travel() -> None:
    fed, _ = federation(faulty("dark", task="train", fault="nan"))
    fed.begin_round(0)
    fed.ask(SOURCES, train(**SGD), first_model(fed))
    assert [t.client for t in fed.traffic.transfers if t.direction == "up"] == list(SOURCES)


# Caches


@pytest.mark.parametrize("variance", ["linear", "mixture"])
@pytest.mark.parametrize("heads", ["parameters", "outputs"])
def test_target_holds_the_very_model_the_server_goes_on_with(variance: str, heads: str) -> None:
    fed, engine = federation()
    outcomes = play(fed, "gala", rounds=2, training={"bn_variance": variance}, group_predictors=heads)
    cache = engine.inner.clients[TARGET].memory.cache
    held = {tag.removeprefix("h2/"): state for tag, state in cache.items()}
    assert digest(held) == outcomes[-1].model.digest()


def test_held_model_does_not_travel() -> None:
    fed, engine = federation()
    play(fed, "gala", rounds=2)
    asked = [job for job in engine.jobs if job.client == TARGET and job.task.name == "centroids"]
    assert [dict(job.payload) for job in asked] == [
        {part: Held(f"h{n}/{part}") for part in ("extractor", "predictor")} for n in (0, 1)
    ]
    assert all(job.size < 10 for job in asked)


def test_forgotten_cache_is_sent_again_in_full_with_the_same_bits() -> None:
    expected = [o.model.digest() for o in play(federation()[0], "gala", rounds=3)]

    fed, engine = federation()
    dispatch = engine.inner.dispatch

    def forgetful(jobs: Sequence[Job], *rest: Any) -> list[Answer]:
        if jobs[0].task.name == "centroids" and jobs[0].round == 1 and len(jobs) > 1:
            engine.inner.clients[TARGET].memory.cache.clear()
        return dispatch(jobs, *rest)

    engine.inner.dispatch = forgetful  # type: ignore[method-assign]
    found = [o.model.digest() for o in play(fed, "gala", rounds=3)]
    assert found == expected
    sent = [job.payload for job in engine.jobs if job.client == TARGET and job.task.name == "centroids"]
    held = [all(isinstance(part, Held) for part in payload.values()) for payload in sent]
    assert held == [True, True, False, True]
    assert not any(isinstance(part, Held) for part in sent[2].values())
    assert not fed.failures


def test_client_that_forgets_for_ever_is_a_failure() -> None:
    def spoil(job: Job, reply: Reply) -> Answer:
        if job.client == TARGET and job.task.name == "centroids":
            return Failure(TARGET, "centroids", "forgot", "again")
        return reply

    fed, engine = federation(spoil)
    with pytest.raises(QuorumError, match="forgot"):
        play(fed, "gala")
    assert len([j for j in engine.jobs if j.client == TARGET and j.task.name == "centroids"]) == 2


# Streams


def test_predictor_does_not_travel_between_training_and_fine_tuning() -> None:
    fed, engine = federation()
    play(fed, "gala")
    for job, answer in zip(engine.jobs, engine.answers, strict=True):
        assert isinstance(answer, Reply)
        if job.task.name == "train":
            assert set(answer.parts) == {"extractor"}
        if job.task.name == "tune":
            assert set(job.payload) == {"extractor"}
            assert set(answer.parts) == {"predictor"}


def test_adding_a_client_changes_no_bit_of_another_clients_work() -> None:
    replies = []
    for sources in (("bright", "inverted"), SOURCES):
        fed, _ = federation(sources=sources)
        G = first_model(fed).extractor
        local = fed.ask(fed.sources, train(**SGD), first_model(fed))
        tuned = fed.ask(fed.sources, tune(**SGD), {"extractor": G})
        replies.append(
            {n: (digest(local.answers[n].parts), digest(tuned.answers[n].parts)) for n in ("bright", "inverted")}
        )
    assert replies[0] == replies[1]


def test_asking_twice_or_listening_shifts_no_stream() -> None:
    quiet, _ = federation()
    expected = digest(quiet.ask(SOURCES, train(**SGD), first_model(quiet))["extractor"])
    fed, _ = federation()
    fed.listener = lambda task, done, asked: torch.rand(3)
    fed.ask(fed.everyone, centroids(), first_model(fed))
    fed.ask("bright", train(**SGD), first_model(fed))
    assert digest(fed.ask(SOURCES, train(**SGD), first_model(fed))["extractor"]) == expected


def test_server_streams_differ_by_round_purpose_and_seed() -> None:
    fed, _ = federation()

    def draw(number: int, purpose: str) -> int:
        fed.round = number
        return int(torch.randint(2**60, (), generator=fed.rng(purpose)))

    assert draw(0, "groups") == draw(0, "groups")
    assert len({draw(0, "groups"), draw(1, "groups"), draw(0, "pair")}) == 3
    before = draw(0, "groups")
    fed.seed = 1
    assert draw(0, "groups") != before


def test_clients_and_rounds_have_streams_of_their_own() -> None:
    fed, engine = federation()
    for client in engine.inner.clients.values():
        client.data = engine.inner.clients["bright"].data
    found = set()
    for number in range(2):
        fed.begin_round(number)
        states = fed.ask(SOURCES, train(**SGD), first_model(fed))["extractor"]
        found |= {digest({"p": state}) for state in states.values()}
    assert len(found) == 2 * len(SOURCES)
