"""The console every verb prints to."""

from __future__ import annotations

import os
import sys

from rich.console import Console
from rich.markup import escape

PIPE_WIDTH = 160
"""A pipe has no width of its own, and wrapped cells are hard to search."""


class Screen(Console):
    """A console whose reader may go away, as in `gala run | head -1`: it falls silent, and the work goes on."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, sys.stdout.fileno())  # what is still in the buffer of the interpreter goes there, too
        os.close(silence)


def console() -> Console:
    """A terminal as wide as it is, a pipe wide enough for every table."""
    terminal = Screen()
    return terminal if terminal.is_terminal else Screen(width=PIPE_WIDTH)


def complain(text: str) -> None:
    """A sentence about what went wrong, beside the output proper."""
    # Escaped: a path may hold square brackets, which would be taken for markup.
    Console(stderr=True).print(f"[bold red]gala:[/] {escape(text)}", highlight=False, soft_wrap=True)
