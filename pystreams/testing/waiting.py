"""Waiting for a condition with a deadline, which tests use instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Default deadline in seconds. It is generous, since only failures take that long.
DEADLINE = 60.0
#: Deadline for the start of a process in seconds, for busy machines. Callers stop waiting if the process exits early.
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
