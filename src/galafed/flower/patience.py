"""How soon a piece of a message that is still on its way is asked for again.

A message is announced before its pieces are there. Flower then waits a second, two, four, up to ten: of a large message
that is most of the time.
"""

from __future__ import annotations

from functools import partial

from flwr.supercore.inflatable.inflatable_utils import pull_objects

FIRST, LONGEST = 0.05, 0.5
"""Seconds before the second look, and at most before any other."""

pull_pieces = partial(pull_objects, initial_backoff=FIRST, backoff_cap=LONGEST)
"""Flower's own function, with less patience."""


def hasten_grid() -> None:
    """Have the server app's Grid, in this process, look as soon: its own method leaves no choice."""
    from flwr.superlink.grid import http_grid

    setattr(http_grid, "pull_objects", pull_pieces)  # noqa: B010 - a name that the module only imports
