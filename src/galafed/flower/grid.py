"""Questions to sites through Flower's Grid, in the process that Flower starts for a server app."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from flwr.app import DEFAULT_TTL, Message, RecordDict

from galafed.flower.patience import pull_answers
from galafed.flower.records import SMALL, pack, unpack
from galafed.messages import Failure
from galafed.sites.frames import Bytes

if TYPE_CHECKING:
    from flwr.serverapp import Grid

Arrived = Callable[[str, bytes | Failure], None]
"""Told of each site its answer, or why there is none."""

POLL, LONGEST = 0.05, 0.5
"""Seconds between two looks for answers, at first and in a long task; Flower's own `send_and_receive` waits three."""
RETURN = 20.0
"""Seconds that a node which is not connected has to come back, in half of a question's time at most."""
SLACK = 5.0
"""Seconds that Flower keeps a message after we stopped waiting for its answer."""
UNAVAILABLE = 5
"""Flower's code for a node that no longer reports."""


class GridQuestions:
    """Sends bytes to sites by name and hands on what comes back."""

    def __init__(self, grid: Grid, *, target: str) -> None:
        self.target = target
        """Which of the sites is the one without labels; only a simulated node has to be told."""
        self._grid = grid
        self._played: dict[str, int] = {}

    def send(self, requests: dict[str, Bytes], timeout: float, arrived: Arrived, largest: int) -> None:
        """Send each site its request; every site is told of exactly once. The requests are let go of once packed.

        One whose node is not connected is sent its request when it comes back, and the others need not wait for that.
        Answers may have up to `largest` bytes; large ones are taken one at a time, or all would be in memory at once.
        """
        started, limit = time.monotonic(), timeout or DEFAULT_TTL
        pull_answers.expect(largest, started + limit)
        # A broadcast is packed once, and stored once at the SuperLink.
        number = {name: id(request) for name, request in requests.items()}
        contents = {id(request): pack(request) for request in requests.values()}
        requests.clear()
        packed = {name: contents[place] for name, place in sorted(number.items())}
        del contents
        waiting: dict[str, str] = {}
        wait, deadline, back = POLL, started + limit, started + min(limit / 2, RETURN)
        while True:
            waiting |= self._push(packed, limit + SLACK, arrived)
            if packed and time.monotonic() >= back:
                for name in packed:
                    arrived(name, Failure(name, "-", "late", "no node of this name is connected to the SuperLink"))
                packed.clear()
            self._collect(waiting, arrived, one_by_one=largest > SMALL)
            if not (waiting or packed) or time.monotonic() >= deadline:
                break
            time.sleep(wait)
            wait = min(wait * 1.1, LONGEST)
        for name in waiting.values():
            arrived(name, Failure(name, "-", "late", f"no answer came within {limit:.1f} s"))

    def _push(self, packed: dict[str, RecordDict], ttl: float, arrived: Arrived) -> dict[str, str]:
        """Send their messages to those whose nodes are connected, who leave `packed`; names by message."""
        nodes = self._nodes(packed) if packed else {}
        messages = []
        for name, node in nodes.items():
            group = f"{'target' if name == self.target else 'source'}:{name}"
            messages.append(Message(packed.pop(name), node, "train.ask", ttl=ttl, group_id=group))
        keys = list(self._grid.push_messages(messages)) if messages else []
        taken = dict(zip(nodes, keys, strict=False))
        for name in nodes:
            if not taken.get(name):
                arrived(name, _lost(name, "the SuperLink did not take the message"))
        return {key: name for name, key in taken.items() if key}

    def _collect(self, waiting: dict[str, str], arrived: Arrived, *, one_by_one: bool) -> None:
        """Hand on the answers that are there; whose answer it is leaves `waiting`."""
        for keys in [[key] for key in waiting] if one_by_one else [list(waiting)] if waiting else []:
            for reply in self._grid.pull_messages(keys):
                if name := waiting.pop(reply.metadata.reply_to_message_id, None):
                    arrived(name, _answer(name, reply))

    def wait_for(self, names: Iterable[str], patience: float) -> dict[str, int]:
        """Let sites connect; returns the nodes of those that are there when all are, or after a while."""
        names = tuple(names)
        deadline = time.monotonic() + patience
        while len(nodes := self._nodes(names)) < len(names) and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, LONGEST))
        return nodes

    def _nodes(self, names: Iterable[str]) -> dict[str, int]:
        """The node of each site that is connected."""
        found = list(self._grid.get_nodes())
        nodes = {node.name: node.node_id for node in found if node.name}
        if found and not nodes:  # a simulation: its nodes are blank, and each plays one site from then on
            free = iter(sorted({node.node_id for node in found} - set(self._played.values())))
            self._played |= dict(zip(sorted(set(names) - self._played.keys()), free, strict=False))
            nodes = self._played
        return {name: nodes[name] for name in names if name in nodes}


def _answer(name: str, reply: Message) -> bytes | Failure:
    if reply.has_error():
        return _lost(name, _reason(reply))
    try:
        return unpack(reply.content)
    except ValueError as error:
        return Failure(name, "-", "invalid", str(error))


def _lost(name: str, reason: str) -> Failure:
    return Failure(name, "-", "lost", reason)


def _reason(reply: Message) -> str:
    if reply.error.code == UNAVAILABLE:
        return "its node went away"
    return f"its node answered with Flower's error {reply.error.code}: {reply.error.reason}"
