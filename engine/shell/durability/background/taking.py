"""Images that are taken in several event-loop iterations, before something is written of them."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.keyspace.image import Taking
from engine.shell.durability.background.attempt import Attempt

#: Does something when what runs in the event loop now is done.
Soon = Callable[[Callable[[], None]], None]


def when_complete(taking: Taking, attempt: Attempt, soon: Soon, work: Callable[[], None]) -> None:
    """Do ``work`` when the image is complete, now or later; never, if the attempt is abandoned before."""

    def step() -> None:
        if attempt.abandoned:
            taking.cancel()
        elif taking.step():
            work()
        else:
            soon(step)

    step()
