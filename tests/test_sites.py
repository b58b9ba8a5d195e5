"""Sites behind bytes: the same numbers as one process, within their policy, and whatever a network or a rogue does."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from galafed.algorithms.base import algorithms
from galafed.benchmarks.base import Domain, benchmarks
from galafed.benchmarks.toy import Toy
from galafed.config import Run, resolve
from galafed.engines import remote
from galafed.engines.remote import Remote
from galafed.errors import QuorumError
from galafed.messages import Failure, Reply
from galafed.networks.base import networks
from galafed.runs.runner import Observer, Result, resume, start
from galafed.sites import wire
from galafed.sites.policy import EVERYTHING, Policy
from galafed.sites.settings import SiteSettings
from galafed.sites.site import Site
from galafed.tasks import centroids, train
from loopback_engine import LoopbackEngine, Meddle, Wire, sites_of
from test_algorithms import NAMES, QUICK, SOURCES, TARGET

FEDERATED = [name for name in NAMES if algorithms.get(name).kind != "central"]


@pytest.fixture(autouse=True)
def clean(tmp_path: Path) -> Iterator[None]:
    LoopbackEngine.folder = tmp_path / "sites"
    yield
    LoopbackEngine.folder, LoopbackEngine.meddle, LoopbackEngine.wire = None, None, None
    LoopbackEngine.policies, LoopbackEngine.data = {}, {}


def config(engine: str = "loopback", algorithm: str = "gala", **values: Any) -> Run:
    common = {"benchmark": "toy", "device": "cpu", "threads": 1, "rounds": 2, algorithm: QUICK.get(algorithm, {})}
    return resolve(common | {"engine": engine, "algorithm": algorithm} | values)


def lines(result: Result) -> list[dict[str, Any]]:
    found = [json.loads(text) for text in (result.folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "phases")} for line in found]


def crossed() -> Wire:
    assert LoopbackEngine.wire is not None
    return LoopbackEngine.wire


class Unplug(Observer):
    def __init__(self, after: int) -> None:
        self._after = after

    def round_done(self, line: Mapping[str, Any]) -> None:
        if line["round"] == self._after:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("algorithm", "persistent"), [*((name, True) for name in FEDERATED), ("gala", False), ("fada", False)]
)
def test_the_same_bits_and_the_same_numbers_as_one_process(
    algorithm: str, persistent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if persistent:  # and with every reply in a file
        monkeypatch.setattr(remote, "SPOOLED", 100)
    values: dict[str, Any] = {"training": {"persistent_momentum": persistent}}
    alone = start(config("serial", algorithm, **values), tmp_path / "alone")
    apart = start(config("loopback", algorithm, **values), tmp_path / "apart")
    assert apart.summary["digest"] == alone.summary["digest"]
    assert lines(apart) == lines(alone)


@pytest.mark.parametrize("algorithm", ["gala", "fada", "kd3a"])
def test_an_interrupted_run_goes_on_with_sites_that_were_started_again(algorithm: str, tmp_path: Path) -> None:
    values: dict[str, Any] = {"training": {"persistent_momentum": True}, "rounds": 3}
    whole = start(config("serial", algorithm, **values), tmp_path / "whole")
    cut = config("loopback", algorithm, **values)
    with pytest.raises(KeyboardInterrupt):
        start(cut, tmp_path / "cut", Unplug(1))
    # What the sites did in a round that was then undone must leave no trace: momentum would be applied twice.
    LoopbackEngine.meddle = _dies_in_round(2)
    with pytest.raises(QuorumError):
        resume(tmp_path / "cut")
    LoopbackEngine.meddle = None
    assert resume(tmp_path / "cut").summary["digest"] == whole.summary["digest"]


def _dies_in_round(number: int) -> Meddle:
    """The target does not answer its last question of a round."""

    def meddle(name: str, request: bytes, site: Site) -> bytes | None:
        body = wire.decode_request(request).body
        last = isinstance(body, wire.Ask) and body.round == number - 1 and body.task.name == "evaluate"
        return None if last and name == TARGET else site.handle(request)

    return meddle


def test_nobody_loads_an_image_on_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    load = Toy.load

    def told(self: Toy, domain: str) -> Domain:
        loaded.append(domain)
        return load(self, domain)

    monkeypatch.setattr(Toy, "load", told)
    from galafed.runs.assembly import assemble

    assemble(config())
    assert not loaded
    start(config(), tmp_path / "run")
    assert sorted(loaded) == sorted((*SOURCES, TARGET))  # each by its own site, once


# What leaves a site


@pytest.mark.parametrize("algorithm", FEDERATED)
def test_no_image_and_no_labels_are_in_the_bytes_that_cross(algorithm: str, tmp_path: Path) -> None:
    start(config("loopback", algorithm), tmp_path / "run")
    everything = b"".join(content for _, content in (*crossed().requests, *crossed().answers))
    network = networks.get("small_cnn")(classes=3, image_size=8)
    toy = Toy()
    for name in toy.domains:
        domain = toy.load(name)
        for split in (domain.train, domain.test):
            pixels = torch.from_numpy(split.images[:12].copy())
            views = [pixels, pixels.permute(0, 3, 1, 2), pixels.float(), pixels.float() / 255, pixels.double() / 255]
            views += [network.prepare(pixels, torch.float32), network.prepare(pixels, torch.float64)]
            for view in views:
                for image in view.contiguous():
                    assert image.numpy().tobytes() not in everything
                    assert image.reshape(image.shape[0], -1)[0].numpy().tobytes() not in everything, "a row of it"
        labels = domain.train.labels
        for form in (labels, labels.astype("int32"), labels.astype("uint8"), labels.astype("float32")):
            assert form[:24].tobytes() not in everything


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    """The test above could not fail if it looked in the wrong way."""
    pixels = torch.from_numpy(Toy().load("dark").train.images[:2].copy())
    reply = Reply("dark", {"x": {"pixels": pixels}}, {}, seconds=0)
    assert pixels[1][0].numpy().tobytes() in wire.encode(wire.Answer("r", "a", 1, "dark", reply))


def test_both_sides_write_down_the_same_payloads(tmp_path: Path) -> None:
    result = start(config(), tmp_path / "run")
    for name in (*SOURCES, TARGET):
        (mine,) = (tmp_path / "sites" / name / "ledger").glob("*.jsonl")
        here = [json.loads(text) for text in mine.read_text().splitlines()]
        there = [json.loads(text) for text in (result.folder / "ledger" / f"{name}.jsonl").read_text().splitlines()]
        keys = ("round", "task", "direction", "bytes", "sha256", "tensors", "numbers")
        assert [[line[key] for key in keys] for line in here] == [[line[key] for key in keys] for line in there]
        asks = {hashlib.sha256(content).hexdigest() for site, content in crossed().answers if site == name}
        assert {line["sha256"] for line in here if line["direction"] == "out"} <= asks
        sent = next((e for e in here if (e["task"], e["round"], e["direction"]) == ("train", 1, "out")), None)
        if name != TARGET:
            assert sent is not None
            assert sent["numbers"] == ["loss"]
            assert all(key.startswith("extractor|") for key in sent["tensors"])


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Policy(tasks=("centroids",)), "does not allow the task 'train'"),
        (Policy(parts=("centroids", "predictor")), "does not let 'extractor' leave"),
        (Policy(megabytes_a_round=0.01), "lets 0.01 MB leave in a round"),
    ],
)
def test_a_site_refuses_what_is_outside_its_policy(policy: Policy, words: str, tmp_path: Path) -> None:
    LoopbackEngine.policies = {"dark": policy}
    result = start(config(), tmp_path / "run")
    failures = [failure for line in lines(result) for failure in line["failures"]]
    assert {failure["client"] for failure in failures} == {"dark"}
    assert all(failure["kind"] == "refused" for failure in failures)
    assert any(words in failure["reason"] for failure in failures)
    assert all("dark" not in line["relevance"] for line in lines(result))
    answers = [wire.decode_answer(content).body for site, content in crossed().answers if site == "dark"]
    assert not any("extractor" in body.parts for body in answers if isinstance(body, Reply))


def test_features_of_single_images_leave_only_where_a_site_allows_it_by_name(tmp_path: Path) -> None:
    LoopbackEngine.policies = {name: Policy() for name in (*SOURCES, TARGET)}
    with pytest.raises(QuorumError, match="features of single images leave the site"):
        start(config("loopback", "fada"), tmp_path / "run")


def test_a_target_does_not_train_on_its_labels_unless_it_says_so(tmp_path: Path) -> None:
    LoopbackEngine.policies = {TARGET: Policy()}
    with pytest.raises(QuorumError, match="training on its own labels"):
        start(config("loopback", "oracle"), tmp_path / "run")


# One site, asked directly


def opened(site: Site, attempt: str = "x", rounds_done: int = 0, **values: Any) -> Any:
    body = wire.Open(config("serial", **values).to_dict(), rounds_done)
    return wire.decode_answer(site.handle(wire.encode(wire.Request("run", attempt, 1, body)))).body


def ask(site: Site, task: Any, payload: Any, sequence: int, number: int = 0, attempt: str = "x") -> Any:
    request = wire.Request("run", attempt, sequence, wire.Ask(number, task, payload))
    return wire.decode_answer(site.handle(wire.encode(request))).body


def one_site(folder: Path, name: str = "dark", **settings: Any) -> Site:
    role = "target" if name == TARGET else "source"
    return Site(SiteSettings(name=name, role=role, **{"allow": EVERYTHING, **settings}), folder)


def model() -> dict[str, dict[str, torch.Tensor]]:
    return dict(networks.get("small_cnn")(classes=3, image_size=8).initial(0).parts)


SGD: dict[str, Any] = {
    "lr": 0.05,
    "momentum": 0.9,
    "weight_decay": 0.0,
    "persistent": True,
    "extractor_rate": 1.0,
    "batch_size": 16,
    "epochs": 1,
}


def test_a_site_that_was_killed_answers_as_if_nothing_had_been(tmp_path: Path) -> None:
    """Every question goes to a new process's site; the answers are those of one that lived on."""
    task = train(send=[], **SGD)
    again = [train(send=[], repeat=1, **SGD), train(send=["extractor", "predictor"], repeat=2, **SGD)]

    def answers(renew: bool, folder: Path) -> list[str]:
        site = one_site(folder)
        assert isinstance(opened(site), wire.Opened)
        found = []
        for sequence, (each, payload) in enumerate([(task, model()), (again[0], {}), (again[1], {})], start=2):
            site = one_site(folder) if renew else site
            body = ask(site, each, payload, sequence)
            found.append(f"{_digest(body)} {body.metrics}")
        return found

    assert answers(True, tmp_path / "killed") == answers(False, tmp_path / "alive")


def test_the_same_question_has_the_same_answer_however_often(tmp_path: Path) -> None:
    site = one_site(tmp_path)
    opened(site)
    task = train(send=["extractor"], **SGD)
    first = _digest(ask(site, task, model(), 2))
    assert _digest(ask(site, task, model(), 2)) == first  # from memory
    assert _digest(ask(one_site(tmp_path), task, model(), 2)) == first  # after a restart: done again from before it
    ask(site, train(send=["extractor"], repeat=1, **SGD), {}, 3)
    assert _digest(ask(site, task, model(), 2)) == first


def _digest(body: Any) -> str:
    assert isinstance(body, Reply), body
    from galafed.model import digest

    return digest(body.parts)


def test_a_server_that_goes_back_some_rounds_finds_what_was_kept_before_them(tmp_path: Path) -> None:
    task = train(send=["extractor"], **SGD)
    site = one_site(tmp_path / "a")
    opened(site)
    found = [_digest(ask(site, task, model(), 2 + number, number)) for number in range(4)]
    opened(site, attempt="y", rounds_done=2)
    assert _digest(ask(site, task, model(), 2, 2, attempt="y")) == found[2]
    assert _digest(ask(site, task, model(), 3, 3, attempt="y")) == found[3]
    assert len({*found}) == 4  # momentum tells the rounds apart


def test_what_no_question_can_need_is_dropped_and_missed_by_name(tmp_path: Path) -> None:
    task = train(send=["extractor"], **SGD)
    site = one_site(tmp_path)
    opened(site)
    for number in range(9):
        ask(site, task, model(), 2 + number, number)
    assert len(list(tmp_path.rglob("at-*.safetensors"))) <= 6
    opened(site, attempt="y", rounds_done=1)
    body = ask(site, task, model(), 2, 1, attempt="y")
    assert isinstance(body, Failure)
    assert body.kind == "lost"
    assert "no longer has what it kept before round 2" in body.reason


def test_a_question_of_another_attempt_or_run_is_not_answered(tmp_path: Path) -> None:
    site = one_site(tmp_path)
    assert ask(site, centroids(), model(), 2).kind == "unopened"
    opened(site)
    assert isinstance(ask(site, centroids(), model(), 2), Reply)
    assert ask(site, centroids(), model(), 3, attempt="old").kind == "unopened"


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("dark", {"sources": ["bright", "faint"]}, "no domain called 'dark'"),
        ("dark", {"target": "dark"}, "takes it for a target"),
        ("dark", {"benchmark": "folder", "folder": {"path": "/etc"}}, ""),
        ("dark", {"algorithm": "no_such"}, "'no_such' is not known"),
        ("dark", {"training": {"lr": -1}}, "lr = -1"),
        ("dark", {"nonsense": 1}, "'nonsense' is not known"),
    ],
)
def test_a_run_that_a_site_cannot_accept_is_refused_with_a_reason(
    name: str, values: dict[str, Any], words: str, tmp_path: Path
) -> None:
    site = one_site(tmp_path, name)
    body = wire.Open({"benchmark": "toy", "device": "cpu", **values}, 0)
    answer = wire.decode_answer(site.handle(wire.encode(wire.Request("run", "x", 1, body)))).body
    assert isinstance(answer, Failure)
    assert answer.kind == "refused"
    assert words in answer.reason


def test_whatever_bytes_come_a_site_answers_with_a_failure(tmp_path: Path) -> None:
    site = one_site(tmp_path)
    for content in (b"", b"hello", b"\0" * 100, wire.encode(wire.Request("r", "x", 1, wire.Ping()))[:-1]):
        body = wire.decode_answer(site.handle(content)).body
        assert isinstance(body, Failure)
        assert body.kind == "invalid"


def test_a_payload_that_does_not_fit_is_a_failure_and_the_site_lives_on(tmp_path: Path) -> None:
    site = one_site(tmp_path)
    opened(site)
    wrong = model()
    wrong["extractor"] = {name: value[:1] if value.ndim else value for name, value in wrong["extractor"].items()}
    assert isinstance(ask(site, centroids(), wrong, 2), Failure)
    assert isinstance(ask(site, centroids(), {}, 3), Failure)
    assert isinstance(ask(site, centroids(), model(), 4), Reply)


def test_a_larger_request_than_a_site_takes_is_not_looked_at(tmp_path: Path) -> None:
    site = Site(SiteSettings(name="dark", role="source"), tmp_path, largest=1000)
    body = wire.decode_answer(site.handle(b"x" * 1001)).body
    assert isinstance(body, Failure)
    assert "at most 1000 are accepted" in body.reason


# What a network and a rogue site may do


def meddling(at: str, change: Any, task: str = "train") -> Meddle:
    """Change the answers of one site to one task."""

    def meddle(name: str, request: bytes, site: Site) -> Any:
        body = wire.decode_request(request).body
        answer = site.handle(request)
        if name != at or not isinstance(body, wire.Ask) or body.task.name != task:
            return answer
        return change(answer)

    return meddle


def altered(change: Any) -> Any:
    """A change of the decoded reply."""

    def alter(content: bytes) -> bytes:
        answer = wire.decode_answer(content)
        assert isinstance(answer.body, Reply)
        return wire.encode(dataclasses.replace(answer, body=change(answer.body)))

    return alter


def first_tensor(change: Any) -> Any:
    def alter(reply: Reply) -> Reply:
        state = dict(reply.parts["extractor"])
        name = next(name for name, value in state.items() if value.is_floating_point())
        state[name] = change(state[name])
        return dataclasses.replace(reply, parts={**reply.parts, "extractor": state})

    return altered(alter)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (lambda content: None, "late", "no answer came"),
        (lambda content: content[: len(content) // 2], "invalid", "cannot be used"),
        (lambda content: b"garbage", "invalid", "cannot be used"),
        (lambda content: content + b"\0" * 30_000_000, "invalid", "are accepted"),
        (first_tensor(lambda value: value * float("nan")), "invalid", "NaN or infinity"),
        (first_tensor(lambda value: value[:1]), "invalid", "has shape"),
        (first_tensor(lambda value: value.double()), "invalid", "numbers of kind"),
        (first_tensor(lambda value: value.long()), "invalid", "numbers of kind"),
        (altered(lambda r: dataclasses.replace(r, parts={})), "invalid", "lacks 'extractor'"),
        (altered(lambda r: dataclasses.replace(r, parts={**r.parts, "x": {}})), "invalid", "unknown part"),
        (altered(lambda r: dataclasses.replace(r, metrics={"loss": float("nan")})), "invalid", "'loss'"),
        (altered(lambda r: dataclasses.replace(r, metrics={})), "invalid", "lacks its loss"),
        (lambda content: Failure("dark", "", "lost", "the cable was cut"), "lost", "the cable was cut"),
        (
            lambda content: wire.encode(dataclasses.replace(wire.decode_answer(content), site="bright")),
            "invalid",
            "signed by 'bright'",
        ),
    ],
)
def test_a_bad_answer_excludes_its_site_by_name(change: Any, kind: str, words: str, tmp_path: Path) -> None:
    LoopbackEngine.meddle = meddling("dark", change)
    result = start(config(rounds=1), tmp_path / "run")
    (failure,) = lines(result)[0]["failures"]
    assert (failure["client"], failure["task"], failure["kind"]) == ("dark", "train", kind)
    assert words in failure["reason"]
    assert set(lines(result)[0]["relevance"]) == set(SOURCES) - {"dark"}


def test_answers_that_come_twice_or_late_change_nothing(tmp_path: Path) -> None:
    plain = start(config("serial"), tmp_path / "plain").summary["digest"]
    earlier: dict[str, list[bytes]] = {}

    def meddle(name: str, request: bytes, site: Site) -> list[bytes]:
        answer = site.handle(request)
        before = earlier.setdefault(name, [])
        before.append(answer)
        return [*before[:-1], answer, answer]  # every answer of the past, and the new one twice

    LoopbackEngine.meddle = meddle
    found = start(config(), tmp_path / "run")
    assert found.summary["digest"] == plain
    assert found.summary["failures"] == 0


def test_a_site_that_lost_the_run_is_opened_again(tmp_path: Path) -> None:
    plain = start(config("serial"), tmp_path / "plain").summary["digest"]

    def meddle(name: str, request: bytes, site: Site) -> bytes:
        body = wire.decode_request(request).body
        if isinstance(body, wire.Ask) and body.task.name == "tune" and name == "dark":
            site._open = None  # as after a restart; what it kept is in its own folder
        return site.handle(request)

    LoopbackEngine.meddle = meddle
    assert start(config(), tmp_path / "run").summary["digest"] == plain


def test_a_silent_site_costs_one_time_out_and_then_a_probe(tmp_path: Path) -> None:
    asked: list[tuple[str, float]] = []

    class Slow(Wire):
        def send(self, requests: Mapping[str, bytes], timeout: float | None, arrived: Any, largest: int) -> None:
            if "dark" in requests:
                asked.append((type(wire.decode_request(requests["dark"]).body).__name__, timeout or 0.0))
            others = {name: request for name, request in requests.items() if name != "dark"}
            super().send(others, timeout, arrived, largest)

    made = config(rounds=1, timeout=50.0)

    class Engine(LoopbackEngine):
        def connect(self) -> Wire:
            return Slow(sites_of(made, tmp_path / "sites"))

    from galafed.engines.base import engines

    engines._entries["silent"] = Engine  # type: ignore[assignment]
    try:
        result = start(dataclasses.replace(made, engine="silent"), tmp_path / "run")
    finally:
        del engines._entries["silent"]
    assert asked[0] == ("Open", pytest.approx(50.0, abs=1.0))
    assert [name for name, _ in asked[1:]] == ["Ping"] * len(asked[1:])
    assert all(timeout <= Remote.probe_seconds for _, timeout in asked[1:])
    kinds = {(failure["client"], failure["kind"]) for failure in lines(result)[0]["failures"]}
    assert kinds == {("dark", "late")} or kinds == {("dark", "late"), ("dark", "lost")}


def test_a_task_has_its_whole_time_whoever_was_waited_for_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sites prepare for the run, and one that was late is asked whether it is there."""
    given: list[tuple[str, float]] = []
    send = Wire.send

    def slow(self: Wire, requests: Mapping[str, bytes], timeout: float | None, arrived: Any, largest: int) -> None:
        body = wire.decode_request(next(iter(requests.values()))).body
        given.append((type(body).__name__, timeout or 0.0))
        if isinstance(body, wire.Open | wire.Ping):
            time.sleep(0.4)
        late = {"dark"} if isinstance(body, wire.Ask) and body.task.name == "train" else set()
        send(self, {name: r for name, r in requests.items() if name not in late}, timeout, arrived, largest)

    monkeypatch.setattr(Wire, "send", slow)
    start(config(rounds=2, timeout=20.0), tmp_path / "run")
    assert {kind for kind, _ in given} == {"Open", "Ask", "Ping"}
    assert all(seconds > 19.7 for kind, seconds in given if kind == "Ask"), given


def test_a_site_that_lost_the_run_has_its_whole_time_whoever_kept_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, float]] = []
    send, restarted = Wire.send, []

    def slow(self: Wire, requests: Mapping[str, bytes], timeout: float | None, arrived: Any, largest: int) -> None:
        body = wire.decode_request(next(iter(requests.values()))).body
        if isinstance(body, wire.Ask) and body.task.name == "centroids" and not restarted:
            restarted.append("dark")
            self.sites["dark"] = sites_of(config(), tmp_path / "new")["dark"]  # on another machine, say
            time.sleep(1.0)
        elif restarted:
            given.append((type(body).__name__, timeout or 0.0))
        send(self, requests, timeout, arrived, largest)

    monkeypatch.setattr(Wire, "send", slow)
    start(config(rounds=1, timeout=20.0), tmp_path / "run")
    assert [kind for kind, _ in given[:2]] == ["Open", "Ask"]
    assert all(seconds > 19.5 for _, seconds in given[:2]), given


def test_below_the_quorum_the_round_is_undone_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    plain = start(config("serial", quorum=4), tmp_path / "plain").summary["digest"]
    LoopbackEngine.meddle = meddling("dark", lambda content: None)
    with pytest.raises(QuorumError, match=r"dark: train late") as caught:
        start(config(quorum=4), tmp_path / "run")
    assert caught.value.exit_code == 5
    LoopbackEngine.meddle = None
    assert resume(tmp_path / "run").summary["digest"] == plain


class Seventeen(Toy):
    """Eighteen domains: those of toy under several names."""

    domains = tuple(f"{base}-{number}" for number in range(4) for base in Toy.domains)[:18]
    default_target = "noisy-0"

    def load(self, domain: str) -> Domain:
        return dataclasses.replace(Toy().load(domain.rpartition("-")[0]), name=domain)


@pytest.mark.parametrize("rounds", [4, pytest.param(30, marks=pytest.mark.slow)])
def test_seventeen_sites_of_which_a_third_drop_at_random(rounds: int, tmp_path: Path) -> None:
    benchmarks.register("seventeen")(Seventeen)
    draw = torch.Generator().manual_seed(7)
    dropped: list[tuple[str, str]] = []

    def meddle(name: str, request: bytes, site: Site) -> bytes | None:
        body = wire.decode_request(request).body
        asked = isinstance(body, wire.Ask) and name != Seventeen.default_target
        if asked and float(torch.rand((), generator=draw)) < 0.3:
            dropped.append((name, body.task.name))  # type: ignore[union-attr]
            return None
        return site.handle(request)

    LoopbackEngine.meddle = meddle
    try:
        made = config(benchmark="seventeen", rounds=rounds, timeout=20.0)
        started = time.monotonic()
        result = start(made, tmp_path / "run")
        took = time.monotonic() - started
    finally:
        del benchmarks._entries["seventeen"]
    found = lines(result)
    assert len(found) == rounds
    named = [(failure["client"], failure["task"]) for line in found for failure in line["failures"]]
    assert len(dropped) > 10 * rounds
    assert set(dropped) <= set(named)  # who kept silent is named; a probe may find it silent once more
    assert took < rounds * 5 * 20.0 * 1.1
    assert result.accuracy is not None
