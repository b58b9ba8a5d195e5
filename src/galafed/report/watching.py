"""Doing a run while showing it: in the terminal or a log, on a live page, in trackers."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from galafed.errors import ConfigError, SaveError
from galafed.registry import unknown
from galafed.report.console import complain, console
from galafed.sinks.base import Sink, Tracked, sinks


@dataclass(frozen=True, kw_only=True)
class Shown:
    """How a run is shown besides the terminal."""

    track: Sequence[str] = ()
    live: bool = False
    port: int = 0


def check_trackers(names: Sequence[str]) -> None:
    """Refuse an unknown tracker before anything heavy is imported."""
    for name in names:
        if name not in sinks.names():
            raise ConfigError(unknown("--track", name, sinks.names()))


def watched(job: Callable[[Any], Any], folder: Path, shown: Shown) -> None:
    """Do a run while showing it, then print what came of it."""
    from galafed.report.curves import draw_run
    from galafed.report.live import LiveDisplay, PlainDisplay
    from galafed.report.tables import summary_table

    screen = console()
    display = LiveDisplay(screen) if screen.is_terminal else PlainDisplay(screen)
    trackers: list[Sink] = [sinks.get(name)() for name in dict.fromkeys(shown.track)]
    observer = Tracked(display, trackers)
    with contextlib.ExitStack() as stack:
        server = None
        if shown.live:
            from galafed.report.serving import served

            server = stack.enter_context(served(folder, shown.port))
            screen.print(f"live at {server.address} (this machine only)", highlight=False, soft_wrap=True)
        try:
            result = job(observer)
        except KeyboardInterrupt:
            display.close()
            complain(f"interrupted; go on with 'gala resume {folder}'")
            sys.exit(130)
        finally:
            display.close()
            observer.close()
        screen.print(summary_table(result.summary))
        try:
            picture = f" (picture: {draw_run(folder).name})"
        except SaveError as error:
            picture = ""
            complain(f"the run is done and saved, but not its picture: {error}")
        if server is not None:
            server.wait_for_last_look()
        ending = f"saved in {folder}{picture}; see it again with 'gala show {folder}'"
        screen.print(ending, soft_wrap=True, markup=False)
