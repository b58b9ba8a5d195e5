"""How long each phase of a round takes, read off the announcements that the federation makes anyway."""

from __future__ import annotations

import time

from galafed.federation import PhaseListener


class PhaseClock:
    """A listener that passes everything on and adds up the time from each question to its last answer."""

    def __init__(self, listener: PhaseListener) -> None:
        self._listener = listener
        self.start()

    def start(self) -> None:
        """Begin a round."""
        self._seconds: dict[str, float] = {}
        self._asked = time.perf_counter()
        self._counted = 0.0

    def __call__(self, task: str, done: int, asked: int) -> None:
        now = time.perf_counter()
        if done == 0:
            self._asked, self._counted = now, 0.0
        passed = now - self._asked
        self._seconds[task] = self._seconds.get(task, 0.0) + passed - self._counted
        self._counted = passed
        self._listener(task, done, asked)

    def seconds(self) -> dict[str, float]:
        """Seconds of the round so far by task, in the order of the questions."""
        return {task: round(seconds, 4) for task, seconds in self._seconds.items()}
