"""The console every verb prints to."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

PIPE_WIDTH = 160
"""A pipe has no width of its own, and wrapped cells are hard to search."""


def console() -> Console:
    """A terminal as wide as it is, a pipe wide enough for every table."""
    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=PIPE_WIDTH)


def complain(text: str) -> None:
    """A sentence about what went wrong, beside the output proper."""
    # Escaped: a path may hold square brackets, which would be taken for markup.
    Console(stderr=True).print(f"[bold red]gala:[/] {escape(text)}", highlight=False, soft_wrap=True)
