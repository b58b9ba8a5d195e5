"""What crosses between server and site: the same after the way as before it, and nothing that can crash either side."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from galafed.messages import Failure, Held, Reply
from galafed.model import State, StateError, check_shapes, schema_of, size_of, weighted_mean
from galafed.sites import packing, spool, wire
from galafed.tasks import align, centroids, evaluate, train

NAMES = st.text(alphabet=st.characters(blacklist_characters="|", blacklist_categories=("Cs",)), min_size=1, max_size=8)
KINDS = st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.uint8])


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    seed = draw(st.integers(0, 2**31))
    bits = torch.randint(0, 256, (*shape, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    kind = draw(KINDS)  # any bits, so also NaN, infinity and minus zero
    return bits.view(kind)[..., 0].contiguous() if bits.numel() else torch.zeros(shape, dtype=kind)


STATES = st.dictionaries(NAMES, tensors(), max_size=3)
PARTS = st.dictionaries(NAMES, STATES, max_size=3)


def bits(value: torch.Tensor) -> torch.Tensor:
    return value.flatten().clone(memory_format=torch.contiguous_format).view(torch.uint8)


def same(one: State, two: State) -> bool:
    """Whether two states are equal, bit for bit."""
    return one.keys() == two.keys() and all(
        one[n].dtype == two[n].dtype and one[n].shape == two[n].shape and bits(one[n]).equal(bits(two[n])) for n in one
    )


QUICK = settings(max_examples=60, suppress_health_check=list(HealthCheck))


@given(PARTS, st.dictionaries(NAMES, st.floats()), st.floats(0, 1e6), st.lists(NAMES, max_size=3))
@QUICK
def test_a_reply_survives_to_the_bit(parts: Any, metrics: Any, seconds: float, holds: list[str]) -> None:
    reply = Reply("a", parts, metrics, seconds=seconds, holds=tuple(holds))
    found = wire.decode_answer(wire.encode(wire.Answer("run", "x", 7, "a", reply))).body
    assert isinstance(found, Reply)
    assert found.parts.keys() == parts.keys()
    assert all(same(found.parts[part], parts[part]) for part in parts)
    assert found.metrics.keys() == metrics.keys()
    for name, value in metrics.items():
        assert found.metrics[name] == value or (math.isnan(value) and math.isnan(found.metrics[name]))
    assert (found.seconds, found.holds) == (seconds, tuple(holds))


@given(PARTS, st.dictionaries(NAMES, NAMES), st.dictionaries(NAMES, NAMES, max_size=2), st.integers(0, 10**6))
@QUICK
def test_a_question_survives_to_the_bit(parts: Any, tags: Any, held: Any, number: int) -> None:
    payload = parts | {name: Held(tag) for name, tag in held.items()}
    task = align(groups=[{"1": 1.0}, {"2": 1.0}], scale=0.3, dropout=True, **sgd())
    found = wire.decode_request(wire.encode(wire.Request("run", "x", 3, wire.Ask(number, task, payload, tags))))
    assert isinstance(found.body, wire.Ask)
    assert (found.run, found.attempt, found.sequence, found.body.round) == ("run", "x", 3, number)
    assert found.body.tags == tags
    assert found.body.payload.keys() == payload.keys()
    for part, state in payload.items():
        kept = found.body.payload[part]
        assert kept == state if isinstance(state, Held) else same(kept, state)  # type: ignore[arg-type]
    assert (found.body.task.name, dict(found.body.task.arguments)) == (task.name, dict(task.arguments))


def sgd() -> dict[str, Any]:
    return {
        "lr": 0.1,
        "momentum": 0.9,
        "weight_decay": 0.1 + 0.2,
        "persistent": False,
        "extractor_rate": 1.0,
        "batch_size": 8,
        "epochs": 1,
    }


@pytest.mark.parametrize("body", [Failure("a", "train", "refused", "no"), wire.Opened({"images": 3, "labels": True})])
def test_other_answers_survive(body: Any) -> None:
    assert wire.decode_answer(wire.encode(wire.Answer("r", "x", 1, "a", body))).body == body


@pytest.mark.parametrize("body", [wire.Ping(), wire.Open({"benchmark": "toy", "training": {"lr": 0.1}}, 4)])
def test_other_requests_survive(body: Any) -> None:
    assert wire.decode_request(wire.encode(wire.Request("r", "x", 1, body))).body == body


def test_two_names_for_one_memory_become_two_tensors() -> None:
    whole = torch.arange(6.0)
    parts = {"a": {"w": whole}, "b": {"w": whole, "slice": whole[2:]}}
    found = wire.decode_answer(wire.encode(wire.Answer("r", "x", 1, "a", Reply("a", parts, {}, seconds=0)))).body
    assert isinstance(found, Reply)
    assert all(same(found.parts[part], parts[part]) for part in parts)


# Bytes that nobody honest sends


MESSAGE = wire.encode(wire.Request("r", "x", 1, wire.Ask(0, centroids(), {"extractor": {"w": torch.ones(3, 2)}})))
ANSWER = wire.encode(wire.Answer("r", "x", 1, "a", Reply("a", {"c": {"w": torch.ones(3)}}, {"loss": 1.0}, seconds=1)))


@given(st.binary(max_size=300))
@QUICK
def test_any_bytes_give_a_named_error(content: bytes) -> None:
    for decode in (wire.decode_request, wire.decode_answer):
        with pytest.raises(wire.WireError):
            decode(content)


@given(st.integers(0, len(MESSAGE) - 1))
@QUICK
def test_a_truncated_message_is_refused(length: int) -> None:
    with pytest.raises(wire.WireError):
        wire.decode_request(MESSAGE[:length])


@given(st.integers(0, len(ANSWER) - 1), st.integers(1, 255))
@settings(max_examples=300)
def test_a_flipped_byte_changes_a_value_or_is_refused(place: int, flip: int) -> None:
    damaged = bytearray(ANSWER)
    damaged[place] ^= flip
    with contextlib.suppress(wire.WireError):  # and nothing else
        wire.decode_answer(bytes(damaged))


def header(**changes: Any) -> bytes:
    """A question whose header is changed; `...` takes a key away."""
    plain = {
        "version": wire.VERSION,
        "run": "r",
        "attempt": "x",
        "sequence": 1,
        "kind": "ask",
        "round": 0,
        "task": "centroids",
        "arguments": {},
        "held": {},
        "tags": {},
        "parts": [],
    }
    values = {key: value for key, value in (plain | changes).items() if value is not ...}
    return save({"e|w": torch.ones(2)} if "parts" in changes else {}, {wire.KEY: json.dumps(values)})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 2}, "version is 2"),
        ({"version": ...}, "version is None"),
        ({"round": -1}, "round is no count"),
        ({"round": True}, "round is no count"),
        ({"round": 1.5}, "round is no count"),
        ({"sequence": "1"}, "sequence is no count"),
        ({"run": 7}, "run is no text"),
        ({"kind": "reply"}, "no request"),
        ({"kind": ...}, "lacks 'kind'"),
        ({"task": "no_such_task"}, "not known here"),
        ({"task": "__init__"}, "not known here"),
        ({"task": "train"}, "cannot be made from its arguments"),
        ({"arguments": {"lr": 1}}, "cannot be made from its arguments"),
        ({"task": "train", "arguments": {"lr": 1.0}}, "got lr; training takes lr, momentum"),
        ({"task": "train", "arguments": sgd() | {"speed": 2}}, "speed, weight_decay; training takes lr"),
        ({"arguments": [1]}, "arguments is no table"),
        ({"held": {"extractor": 3}}, "no text"),
        ({"tags": "h1"}, "tags is no table"),
        ({"parts": ["other"]}, "a part it does not name"),
        ({"parts": 5}, "header is wrong"),
        ({"round": float("nan")}, "not one of ours"),
    ],
)
def test_a_wrong_header_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(wire.WireError, match=words):
        wire.decode_request(header(**changes))


def test_nan_in_a_header_is_no_number() -> None:
    with pytest.raises(wire.WireError, match="not one of ours"):
        wire.decode_request(header(arguments={"lr": math.nan}))


def test_too_many_bytes_are_not_even_looked_at() -> None:
    with pytest.raises(wire.WireError, match="at most 100 are accepted"):
        wire.decode_request(MESSAGE, largest=100)
    with pytest.raises(wire.WireError, match="at most 100 are accepted"):
        wire.decode_answer(ANSWER, largest=100)


def test_a_header_that_claims_to_be_huge_is_refused_at_once() -> None:
    with pytest.raises(wire.WireError, match="cut short"):
        wire.decode_request((2**40).to_bytes(8, "little") + b"{}" * 10)


# Replies that wait in files


def test_a_reply_in_a_file_is_the_reply(tmp_path: Path) -> None:
    states = {"extractor": {"w": torch.randn(4, 3), "n": torch.tensor(3)}, "empty": {}}
    path = tmp_path / "reply"
    path.write_bytes(wire.encode(wire.Answer("r", "x", 1, "a", Reply("a", states, {"loss": 0.5}, seconds=1))))
    found = wire.decode_answer(path).body
    assert isinstance(found, Reply)
    assert all(same(found.parts[part], states[part]) for part in states)
    extractor = found.parts["extractor"]
    more = {"n": torch.tensor(9)}
    for made in (dict(extractor), {**extractor}, extractor.copy(), {} | extractor, extractor | {}):
        assert same(made, states["extractor"])
    assert same(extractor | more, states["extractor"] | more)
    assert same(more | extractor, states["extractor"])
    assert extractor.get("no") is None
    with pytest.raises(KeyError):
        extractor["no"]
    mean = weighted_mean({"a": extractor, "b": extractor}, {"a": 1.0, "b": 3.0})
    assert torch.allclose(mean["w"], states["extractor"]["w"])
    assert found.size == Reply("a", states, {}, seconds=1).size
    del found, extractor
    assert not path.exists()  # with the last state that was read from it


def test_every_task_of_the_project_can_be_asked_for_by_name() -> None:
    for task in (evaluate(paths=[["extractor", "predictor:1"]], rule="mean"), train(send=["extractor"], **sgd())):
        found = wire.decode_request(wire.encode(wire.Request("r", "x", 1, wire.Ask(0, task, {})))).body
        assert isinstance(found, wire.Ask)
        assert found.task.work.modules == task.work.modules


def test_shapes_and_sizes_of_an_answer_in_a_file_are_told_without_reading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {"a": torch.ones(3, 4), "n": torch.tensor(7)}
    path = tmp_path / "answer"
    path.write_bytes(wire.encode(wire.Answer("r", "a", 1, "s", Reply("s", {"x": state}, {}, seconds=0))))
    body = wire.decode_answer(path).body
    assert isinstance(body, Reply)
    found = body.parts["x"]
    reads: list[str] = []
    read = type(found).__getitem__
    monkeypatch.setattr(type(found), "__getitem__", lambda self, name: reads.append(name) or read(self, name))
    assert schema_of(found) == schema_of(state)
    assert body.size == size_of({"x": state})
    check_shapes(found, schema_of(state), "s", dtype=torch.float32)
    with pytest.raises(StateError, match="has shape"):
        check_shapes(found, schema_of({"a": torch.ones(3, 5), "n": torch.tensor(7)}), "s")
    assert not reads
    assert torch.equal(found["a"], state["a"])
    assert reads == ["a"]


@pytest.mark.parametrize("shape", [(7, 5), (35,), (1, 35), (5, 7, 1), ()])
def test_a_sum_in_blocks_has_the_bits_of_the_whole_from_files_as_from_memory(
    shape: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = torch.Generator().manual_seed(0)
    states = {name: {"w": torch.randn(shape, generator=draw)} for name in "abc"}
    weights = {"a": 0.2, "b": 1.7, "c": 0.4}
    whole = weighted_mean(states, weights)["w"]
    files = {}
    for name, state in states.items():
        path = tmp_path / name
        path.write_bytes(wire.encode(wire.Answer("r", "a", 1, name, Reply(name, {"x": state}, {}, seconds=0))))
        body = wire.decode_answer(path).body
        assert isinstance(body, Reply)
        files[name] = body.parts["x"]
    monkeypatch.setattr("galafed.model.BLOCK", 10)
    at_once = list[int]()
    rows = spool.Spooled.rows

    def counted(state: spool.Spooled, name: str, some: slice) -> torch.Tensor:
        found = rows(state, name, some)
        at_once.append(found.numel())
        return found

    monkeypatch.setattr(spool.Spooled, "rows", counted)
    for some in (states, files):
        mean = weighted_mean(some, weights)["w"]
        assert mean.shape == whole.shape
        assert torch.equal(mean, whole)
    if len(shape) and shape[0] > 1:
        assert sum(at_once) == 3 * 35, "of files, too, some rows are read at a time"
        assert max(at_once) <= 10


def test_a_large_message_has_the_same_bytes_as_a_small_one_would(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = {"x|w": torch.randn(40, 30), "x|n": torch.tensor(3), "y|e": torch.zeros(0, 2)}
    small = packing.packed(tensors, {"about": "it"})
    monkeypatch.setattr(packing, "LARGE", 100)
    assert packing.packed(tensors, {"about": "it"}) == small == save(tensors, {"about": "it"})
