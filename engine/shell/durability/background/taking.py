"""Images that are taken in several event-loop iterations, before something is written of them."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.keyspace.image import Taking
from engine.shell.durability.background.attempt import Attempt

#: Does something when what runs in the event loop now is done.
Soon = Callable[[Callable[[], None]], None]


def when_complete(taking: Taking, attempt: Attempt, soon: Soon, work: Callable[[], None]) -> None:
    """Do ``work`` when the image is complete, now or later; never, if the attempt is abandoned before."""
    _Completing(taking, attempt, soon, work).step()


class _Completing:
    """No function that names itself: it would be a cycle, and keep the image until the garbage collector comes by."""

    __slots__ = ("_attempt", "_soon", "_taking", "_work")

    def __init__(self, taking: Taking, attempt: Attempt, soon: Soon, work: Callable[[], None]) -> None:
        self._taking = taking
        self._attempt = attempt
        self._soon = soon
        self._work = work

    def step(self) -> None:
        """Take some more keys."""
        if self._attempt.abandoned:
            self._taking.cancel()
        elif self._taking.step():
            self._work()
        else:
            self._soon(self.step)
