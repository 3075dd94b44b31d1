"""Waiting on a condition, with a deadline: what tests do instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds after which what should have happened counts as not happening. Generous: only failures pay it.
DEADLINE = 60.0
#: The same for a process that starts, which on a machine full of work can take that long. One that ends is noticed.
START_DEADLINE = 120.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.05


def wait_until(condition: Callable[[], T], what: str = "the condition", deadline: float = DEADLINE) -> T:
    """Return the first true value of ``condition``. Raises TimeoutError with ``what`` after ``deadline`` seconds."""
    end = time.monotonic() + deadline
    pause = _FIRST_PAUSE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"waited {deadline:g} s for {what}; last seen: {value!r}")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
