"""The parts of the Flower engine that need no process: questions through a Grid, records, settings, who plays whom."""

from __future__ import annotations

import json
import signal
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="the extra galafed[flower] is not installed")

from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.supercore.run import InvalidRunStatusException, RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity

from galafed.config import resolve
from galafed.errors import ConfigError
from galafed.flower import BUNDLE, node
from galafed.flower.connection import try_connection
from galafed.flower.folder import kit_server, make_federation
from galafed.flower.grid import GridQuestions
from galafed.flower.keys import make_node_key
from galafed.flower.own_run import settings_of
from galafed.flower.place import place_of
from galafed.flower.records import SMALL, pack, unpack
from galafed.messages import Failure
from galafed.registry import entries


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower's messages want to know which task sends them."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class FakeGrid:
    """Nodes by name, and what becomes of a message to each: bytes, an error code, or silence."""

    def __init__(self, nodes: Sequence[str], fate: dict[int, Any]) -> None:
        self.nodes = [SimpleNamespace(node_id=number, name=name) for number, name in enumerate(nodes, start=1)]
        self.fate = fate
        self.pushed: dict[str, Message] = {}

    def get_nodes(self) -> list[SimpleNamespace]:
        return self.nodes

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        keys = []
        for message in messages:
            key = f"m{len(self.pushed)}"
            self.pushed[key] = message
            keys.append(key if self.fate.get(message.metadata.dst_node_id) != "refused" else "")
        return keys

    def pull_messages(self, keys: Sequence[str]) -> list[Message]:
        replies = []
        for key in (*keys, *keys):  # every answer comes twice
            fate = self.fate.get(self.pushed[key].metadata.dst_node_id)
            reply = SimpleNamespace(metadata=SimpleNamespace(reply_to_message_id=key), has_error=lambda: False)
            if isinstance(fate, int):
                reply.has_error, reply.error = (lambda: True), Error(fate, "broken")
            elif isinstance(fate, RecordDict):
                reply.content = fate
            elif isinstance(fate, bytes):
                reply.content = pack(fate)
            else:
                continue
            replies.append(reply)
        return [SimpleNamespace(metadata=SimpleNamespace(reply_to_message_id="of nobody")), *replies]


@pytest.mark.parametrize("largest", [100, 2**30], ids=["small", "large, one at a time"])
def test_every_site_is_told_of_once_and_with_its_reason(largest: int) -> None:
    names = ["well", "gone", "raised", "silent", "foreign", "refused"]
    foreign = RecordDict({"x": ConfigRecord({"y": 1})})
    grid = FakeGrid(names, {1: b"answer", 2: 5, 3: 2, 5: foreign, 6: "refused"})
    told: list[tuple[str, bytes | Failure]] = []
    request = b"question"
    questions = GridQuestions(grid, target="well")  # type: ignore[arg-type]
    questions.send(dict.fromkeys([*names, "absent"], request), 1.0, lambda *told_of: told.append(told_of), largest)
    answers = dict(told)
    assert len(told) == len(answers) == 7
    assert answers["well"] == b"answer"
    kinds = {name: (a.kind, a.reason) for name, a in answers.items() if isinstance(a, Failure)}
    assert kinds["gone"] == ("lost", "its node went away")
    assert kinds["raised"][0] == "lost"
    assert "broken" in kinds["raised"][1]
    assert kinds["silent"] == ("late", "no answer came within 1.0 s")
    assert kinds["foreign"][0] == "invalid"
    assert "did not take" in kinds["refused"][1]
    assert kinds["absent"] == ("late", "no node of this name is connected to the SuperLink")
    sent = {message.metadata.group_id: message for message in grid.pushed.values()}
    assert "target:well" in sent
    assert "source:gone" in sent
    assert len({id(message.content) for message in sent.values()}) == 1, "a broadcast is packed once"


def test_a_node_that_comes_back_is_asked_then_and_the_others_at_once() -> None:
    grid = FakeGrid(["here"], {1: b"1", 2: b"2"})
    told: dict[str, float] = {}
    began = time.monotonic()

    def arrived(name: str, answer: bytes | Failure) -> None:
        told[name] = time.monotonic() - began
        if name == "here":
            grid.nodes.append(SimpleNamespace(node_id=2, name="back"))
        assert isinstance(answer, bytes) == (name != "gone")

    questions = GridQuestions(grid, target="here")  # type: ignore[arg-type]
    questions.send(dict.fromkeys(["back", "gone", "here"], b"x"), 2.0, arrived, 100)
    assert told["here"] < 0.5
    assert told["back"] < 0.9
    assert told["gone"] >= 1.0, "half of the time is for coming back"
    assert len(grid.pushed) == 2


def test_a_blank_node_plays_one_site_for_good() -> None:
    grid = FakeGrid(["", "", ""], {1: b"1", 2: b"2", 3: b"3"})
    questions = GridQuestions(grid, target="c")  # type: ignore[arg-type]
    heard: dict[str, Any] = {}
    for names in (["b"], ["a", "b", "c"], ["c"]):
        before = dict(heard)
        questions.send(dict.fromkeys(names, b"x"), 1, heard.__setitem__, 100)
        assert before.items() <= heard.items()
    assert sorted(heard.values()) == [b"1", b"2", b"3"]


@given(st.binary(max_size=200), st.sampled_from([0, SMALL - 100, SMALL + 1]))
def test_bytes_come_back_from_records(content: bytes, more: int) -> None:
    message = content + bytes(more)
    assert unpack(pack(message)) == message


@pytest.mark.parametrize(
    "content",
    [RecordDict(), RecordDict({"galafed": ConfigRecord({"bytes": "text"})}), RecordDict({"galafed": ArrayRecord({})})],
)
def test_other_records_are_refused(content: RecordDict) -> None:
    with pytest.raises(ValueError, match="did not write"):
        unpack(content)


def context(node: dict[str, Any], run: dict[str, Any]) -> Context:
    return Context(run_id=7, node_id=1, node_config=node, state=RecordDict(), run_config=run)


def test_a_real_node_is_the_site_of_its_own_file_whatever_it_is_told(tmp_path: Path) -> None:
    file = tmp_path / "hand.toml"
    node, site = place_of("target:type", context({"site": str(file)}, {"workspace": "/elsewhere"}))
    assert (node, json.loads(site)) == (str(file), {"file": str(file)})
    with pytest.raises(ValueError, match="--node-config"):
        place_of("source:hand", context({}, {}))


def test_simulated_sites_share_workers(tmp_path: Path) -> None:
    run = {"workspace": str(tmp_path), "workers": 2, "kits": "/kits"}
    places = [place_of("source:hand", context({"partition-id": k, "num-partitions": 3}, run)) for k in range(3)]
    assert [node for node, _ in places] == [f"{tmp_path}/0", f"{tmp_path}/1", f"{tmp_path}/0"]
    told = {"name": "hand", "role": "source", "folder": f"{tmp_path}/hand", "kit": "/kits/hand"}
    assert json.loads(places[0][1]) == told
    _, alone = place_of("source:hand", context({"partition-id": 0, "num-partitions": 3}, {}))
    assert json.loads(alone)["kit"] == "", "a run of `flwr run` alone has no other line than Flower's"


def test_settings_of_flwr_run_become_those_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("rounds = 9\nseed = 4\n[training]\nlr = 0.5\nepochs = 2\n")
    told = {
        "config": str(tmp_path / "run.toml"),
        "rounds": 3,
        "seed": 0,
        "sources": "hand, type",
        "target": "hand-small",
    }
    config = resolve(
        settings_of({**told, "algorithm": "", "set": "training.lr=0.25 gala.tau=0.5", "target": "hand-small"})
    )
    assert (config.rounds, config.seed, config.sources, config.engine) == (3, 4, ("hand", "type"), "flower")
    assert (config.training.lr, config.training.epochs, config.settings.tau) == (0.25, 2, 0.5)


def test_a_kit_is_for_one_site_and_a_folder_for_one_engine(tmp_path: Path) -> None:
    made = make_federation(tmp_path / "c", ["a", "b"], "t", host="server.example.org")
    assert kit_server(made.kit("a"), "a") == "server.example.org:9092"
    with pytest.raises(ConfigError, match="kit of 'a'"):
        kit_server(made.kit("a"), "b")
    for wrong in (["a", "a"], ["t"], ["a b"]):
        with pytest.raises(ConfigError):
            make_federation(tmp_path / "d", wrong, "t")
    assert not (tmp_path / "d").exists()
    ((text, problem),) = try_connection(made.kit("a"), "b")
    assert problem
    assert "kit of 'a'" in text
    assert ssl.create_default_context(cafile=str(made.kit("a") / "ca.crt")).get_ca_certs()


def test_the_app_is_two_files_that_import_the_installed_package() -> None:
    files = sorted(file for file in (BUNDLE / "galafed_flower").glob("*.py"))
    assert [file.name for file in files] == ["__init__.py", "client.py", "server.py"]
    assert all(len(file.read_text().splitlines()) < 8 for file in files)
    assert "flower" in entries("galafed.engines")


def test_a_piece_that_is_still_on_its_way_is_soon_asked_for_again() -> None:
    from flwr.supercore.inflatable.inflatable_utils import ObjectUnavailableError
    from flwr.superlink.grid import http_grid

    from galafed.flower.patience import hasten_grid, pull_answers

    pull_answers.expect(100)
    tries: list[float] = []

    def pull(name: str) -> bytes:
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise ObjectUnavailableError(name)
        return b"piece"

    before = http_grid.pull_objects
    try:
        hasten_grid()
        assert http_grid.pull_objects(["name"], pull) == {"name": b"piece"}
    finally:
        http_grid.pull_objects = before
    assert tries[-1] - tries[0] < 0.8  # Flower would have waited for three seconds


def test_an_answer_in_more_pieces_than_an_honest_one_has_is_not_fetched() -> None:
    from flwr.supercore.inflatable.inflatable_utils import ObjectPullError

    from galafed.flower.patience import AROUND, CHUNK, PullAnswers

    pulled: list[str] = []

    def pull(name: str) -> bytes:
        pulled.append(name)
        return b"piece"

    answers = PullAnswers()
    answers.expect(10 * CHUNK)
    names = [str(number) for number in range(10 + AROUND)]
    assert answers(names, pull).keys() == set(names)
    pulled.clear()
    with pytest.raises(ObjectPullError, match=f"{11 + AROUND} pieces; at most {10 + AROUND} are accepted"):
        answers([*names, "one more"], pull)
    assert not pulled


def test_an_answer_of_one_piece_many_times_over_is_not_made() -> None:
    from flwr.app import Array
    from flwr.supercore.inflatable.inflatable_utils import ObjectPullError

    from galafed.flower.patience import CHUNK, PullAnswers

    def pieces(content: bytes) -> dict[str, bytes]:
        array = Array("uint8", (len(content),), "bytes", content)
        return {array.object_id: array.deflate()} | {name: chunk.deflate() for name, chunk in array.children.items()}

    answers = PullAnswers()
    answers.expect(3 * CHUNK)
    honest, zeros = pieces(bytes(range(256)) * (3 * CHUNK // 256)), pieces(bytes(30 * CHUNK))
    assert answers(list(honest), honest.__getitem__) == honest
    assert len(zeros) == 2, "Flower sends equal chunks once"
    with pytest.raises(ObjectPullError, match="its answer has"):
        answers(list(zeros), zeros.__getitem__)


def test_pieces_that_never_come_are_not_waited_for_beyond_the_end_of_a_question() -> None:
    """As of a node that was killed after it had announced its answer."""
    from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectUnavailableError

    from galafed.flower.patience import PullAnswers

    def pull(name: str) -> bytes:
        if name == "there":
            return b"piece"
        raise ObjectUnavailableError(name)

    answers = PullAnswers()
    began = time.monotonic()
    answers.expect(100, began + 0.4)
    with pytest.raises(ObjectPullError, match="timeout"):
        answers(["there", "not there"], pull)
    assert 0.3 < time.monotonic() - began < 1.5
    assert answers(["there"], pull) == {"there": b"piece"}, "what is there is fetched even then"


ENDED = [RunNotRunningException(), InvalidRunStatusException("ended"), RuntimeError("refused")]


@pytest.mark.parametrize("ended", ENDED, ids=repr)
def test_a_node_outlives_a_run_that_ends_while_its_message_is_fetched(
    ended: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, asked = threading.Event(), list[int]()

    def receive() -> None:
        asked.append(1)
        if len(asked) == 1:
            raise ended
        broken.set()

    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    assert list(node._messages((None, receive, *6 * [None]), broken)) == []
    assert len(asked) == 2


@pytest.mark.parametrize("ended", ENDED, ids=repr)
def test_a_node_outlives_a_run_that_ends_before_its_answer_is_sent(
    ended: BaseException, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second connection stops the test; it is made only by a node that lives on."""
    replies = list[Any]()

    @contextmanager
    def connect(*_: Any, **__: Any) -> Iterator[tuple[int, ...]]:
        if replies:
            raise KeyboardInterrupt
        yield (1,)

    def refuse(line: Any, reply: Message) -> None:
        replies.append(reply)
        raise ended

    question = Message(pack(b"x"), 2, "train.ask")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(node, "http_request_response", connect)
    monkeypatch.setattr(node, "_messages", lambda line, broken: iter([question, question]))
    monkeypatch.setattr(node, "_sign_off", lambda *_: None)
    monkeypatch.setattr(node, "_reply", refuse)
    make_node_key(tmp_path)
    kit = (tmp_path / "ca.crt", tmp_path / "node.key")
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            node.serve("localhost:1", *kit, lambda: lambda request: request, tmp_path / "note")
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(replies) == 2
