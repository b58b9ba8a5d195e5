"""How soon a piece of a message that is still on its way is asked for again, and how many of them are fetched.

A message is announced before its pieces are there. Flower then waits a second, two, four, up to ten: of a large message
that is most of the time. And it fetches whatever was announced.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial

from flwr.app import Array
from flwr.common.constant import FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE as CHUNK
from flwr.supercore.inflatable.inflatable_object import (
    get_object_body,
    get_object_children_ids_from_object_content,
)
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, pull_objects

FIRST, LONGEST = 0.05, 0.5
"""Seconds before the second look, and at most before any other."""
AROUND = 8
"""Pieces of a message, at most, that hold no payload: records, and the message itself."""
HEADERS = 2**20
"""Bytes beside the payload, at most."""
UPLOAD, SLOWEST = 3.0, 2**20
"""Seconds that a node has for the pieces of an answer, and bytes a second by which a large one has longer."""

pull_pieces = partial(pull_objects, initial_backoff=FIRST, backoff_cap=LONGEST)
"""Flower's own function, with less patience."""


class PullAnswers:
    """The same for answers: one in more pieces than an honest answer has is not fetched, nor waited for without end.

    A piece that stands in an answer many times is sent once, so what the pieces make is looked at before it is made.
    Of a node that was killed between the announcement and the last piece, Flower would wait for more than a minute.
    """

    def __init__(self) -> None:
        self._largest, self._most, self._seconds, self._end = sys.maxsize, sys.maxsize, math.inf, math.inf

    def expect(self, largest: int, end: float = math.inf) -> None:
        """From now on answers have up to so many bytes, and are not waited for after `end`, by the monotonic clock."""
        self._largest = largest + HEADERS
        self._most, self._seconds, self._end = AROUND + largest // CHUNK, UPLOAD + largest / SLOWEST, end

    def __call__(self, object_ids: list[str], pull_object_fn: Callable[[str], bytes]) -> dict[str, bytes]:
        if len(object_ids) > self._most:
            reason = f"its answer is in {len(object_ids)} pieces; at most {self._most} are accepted"
            raise ObjectPullError(object_ids[0], reason)
        seconds = min(self._seconds, max(self._end - time.monotonic(), 0.0))
        pieces = pull_pieces(object_ids, pull_object_fn, max_time=seconds)
        if (size := sum(_whole(content, pieces) for content in pieces.values())) > self._largest:
            raise ObjectPullError(object_ids[0], f"its answer has {size} bytes; at most {self._largest} are accepted")
        return pieces


def _whole(content: bytes, pieces: Mapping[str, bytes]) -> int:
    """Bytes of the array that a piece describes; none where it is something else, or nothing that can be made."""
    try:
        places = json.loads(get_object_body(content, Array))["arraychunk_ids"]
        own = get_object_children_ids_from_object_content(content)
        return sum(len(pieces[own[place]]) for place in places)
    except (ValueError, KeyError, IndexError, TypeError):
        return 0


pull_answers = PullAnswers()
"""What the server app fetches with."""


def hasten_grid() -> None:
    """Have the server app's Grid, in this process, fetch so: its own method leaves no choice."""
    from flwr.superlink.grid import http_grid

    setattr(http_grid, "pull_objects", pull_answers)  # noqa: B010 - a name that the module only imports
