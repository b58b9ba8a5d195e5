"""How soon a piece of a message that is still on its way is asked for again, and how many of them are fetched.

A message is announced before its pieces are there. Flower then waits a second, two, four, up to ten: of a large message
that is most of the time. And it fetches whatever was announced.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from flwr.common.constant import FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE as CHUNK
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, pull_objects

FIRST, LONGEST = 0.05, 0.5
"""Seconds before the second look, and at most before any other."""
AROUND = 8
"""Pieces of a message, at most, that hold no payload: records, and the message itself."""

pull_pieces = partial(pull_objects, initial_backoff=FIRST, backoff_cap=LONGEST)
"""Flower's own function, with less patience."""


class PullAnswers:
    """The same for answers: one in more pieces than an honest answer has is not fetched."""

    def __init__(self) -> None:
        self._most = sys.maxsize

    def expect(self, largest: int) -> None:
        """From now on answers have up to so many bytes."""
        self._most = AROUND + largest // CHUNK

    def __call__(self, object_ids: list[str], pull_object_fn: Callable[[str], bytes]) -> dict[str, bytes]:
        if len(object_ids) > self._most:
            reason = f"its answer is in {len(object_ids)} pieces; at most {self._most} are accepted"
            raise ObjectPullError(object_ids[0], reason)
        return pull_pieces(object_ids, pull_object_fn)


pull_answers = PullAnswers()
"""What the server app fetches with."""


def hasten_grid() -> None:
    """Have the server app's Grid, in this process, fetch so: its own method leaves no choice."""
    from flwr.superlink.grid import http_grid

    setattr(http_grid, "pull_objects", pull_answers)  # noqa: B010 - a name that the module only imports
