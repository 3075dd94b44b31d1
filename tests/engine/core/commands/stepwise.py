"""Commands that run in steps, driven by the test: one step, or all with another client."""

from __future__ import annotations

from typing import Any

from engine.core.protocol.replies import Steps
from tests.engine.core.commands.test_long_replies import Side
from tests.harness.replay import NOW_US


def go_on(side: Side, steps: Steps, after_ms: int = 5) -> Any:
    """Run the next step and return the reply, or ``steps`` if more steps follow."""
    return side.core.go_on(side.session, steps, NOW_US + after_ms * 1000)


def finished(side: Side, steps: Steps, meanwhile: dict[int, str] | None = None) -> tuple[Any, int]:
    """Return the reply and the number of steps.

    Another client runs commands after some of the steps; from the first that must wait on, they run after the last.
    """
    other, waiting, count = side.core.open_session(NOW_US), list[list[bytes]](), 0
    while (reply := go_on(side, steps)) is steps:
        count += 1
        for line in filter(None, (meanwhile or {}).get(count, "").split(";")):
            words = line.encode().split()
            if waiting or side.core.divided.must_wait(other, words):
                waiting.append(words)
            else:
                side.core.execute(other, words, NOW_US + 5000)
    for words in waiting:
        side.core.execute(other, words, NOW_US + 5000)
    return reply, count
