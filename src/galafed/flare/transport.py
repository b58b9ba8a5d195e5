"""The engine's transport: a relay to FLARE's job, which takes sites back in that were started again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from galafed.flare.runtime import Coordinator
from galafed.messages import Failure
from galafed.sites.depot_relay import DepotRelay, Question
from galafed.sites.relay import Arrived


class FlareRelay(DepotRelay):
    """A relay that has the job started anew when a site that fell silent is connected: it was started again.

    FLARE never takes a site back into a running job.
    """

    def __init__(self, make: Callable[[], Coordinator]) -> None:
        super().__init__(make, "FLARE")
        self._missed: frozenset[str] = frozenset()

    def _put(self, question: Question, timeout: float | None, arrived: Arrived) -> None:
        """A site that is silent for the second time and yet connected is asked in a new job."""
        coordinator = self._runtime
        if not isinstance(coordinator, Coordinator):
            raise TypeError("a relay of FLARE needs its coordinator")
        failures: dict[str, Failure] = {}

        def told(name: str, answer: bytes | Path | Failure) -> None:
            if isinstance(answer, Failure):
                failures[name] = answer
            else:
                arrived(name, answer)

        messages = question.messages
        self._pass_on(question, messages, timeout, told)
        again = failures.keys() & self._missed
        self._missed = (self._missed - messages.keys()) | failures.keys()
        if again and (back := coordinator.connected(frozenset(again))):
            self._hang_up()
            for name in back:
                del failures[name]
            self._pass_on(question, {name: messages[name] for name in back}, timeout, told)
            self._missed = self._missed - (back - failures.keys())
        for name, failure in failures.items():
            arrived(name, failure)
