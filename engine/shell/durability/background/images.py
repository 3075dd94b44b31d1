"""Images of the data that take several event-loop iterations to complete before they can be written."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.keyspace.image import ImageBuilder
from engine.shell.durability.background.attempt import Attempt

#: Runs a function in the event loop, after the current callback.
Soon = Callable[[Callable[[], None]], None]


def run_when_complete(builder: ImageBuilder, attempt: Attempt, soon: Soon, work: Callable[[], None]) -> None:
    """Run ``work`` when the image is complete, unless the attempt is abandoned before that."""
    _Completing(builder, attempt, soon, work).step()


class _Completing:
    """Steps of one image. A recursive closure would be a reference cycle that keeps the image in memory."""

    __slots__ = ("_attempt", "_builder", "_soon", "_work")

    def __init__(self, builder: ImageBuilder, attempt: Attempt, soon: Soon, work: Callable[[], None]) -> None:
        self._builder = builder
        self._attempt = attempt
        self._soon = soon
        self._work = work

    def step(self) -> None:
        """Add some more keys to the image, and finish or schedule the next step."""
        if self._attempt.abandoned:
            self._builder.cancel()
        elif self._builder.step():
            self._work()
        else:
            self._soon(self.step)
