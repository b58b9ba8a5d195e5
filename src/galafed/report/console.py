"""The console every verb prints to."""

from __future__ import annotations

from rich.console import Console

PIPE_WIDTH = 160
"""A pipe has no width of its own, and wrapped cells are hard to search."""


def console() -> Console:
    """A terminal as wide as it is, a pipe wide enough for every table."""
    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=PIPE_WIDTH)
