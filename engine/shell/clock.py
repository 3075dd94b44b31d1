"""The time since the epoch, which tests can change, and calls at regular intervals.

The environment variable PYSTREAMS_ENGINE_CLOCK names a file whose first eight bytes are an offset
in microseconds (signed, little endian). The offset is added to the system's time and may increase at any moment.
"""

from __future__ import annotations

import asyncio
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from time import time_ns

_FILE = os.environ.get("PYSTREAMS_ENGINE_CLOCK")


def _moved_ns(file: Path) -> Callable[[], int]:
    with file.open("rb") as opened:
        offset = mmap.mmap(opened.fileno(), 8, access=mmap.ACCESS_READ)
    return lambda: time_ns() + 1000 * int.from_bytes(offset[:8], "little", signed=True)


#: Function that returns the time in nanoseconds since the epoch.
now_ns: Callable[[], int] = _moved_ns(Path(_FILE)) if _FILE else time_ns


def now_us() -> int:
    """Return the time in microseconds since the epoch."""
    return now_ns() // 1000


class Ticker:
    """Calls ``work`` in the event loop every ``seconds``, also after an error, until it is stopped."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, work: Callable[[], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._work = work
        self._timer = loop.call_later(seconds, self._tick)

    def _tick(self) -> None:
        # Schedule the next call first, so that an error does not stop the timer.
        self._timer = self._loop.call_later(self._seconds, self._tick)
        self._work()

    def stop(self) -> None:
        """Make no more calls."""
        self._timer.cancel()
