"""The one place where the engine reads the clock."""

from __future__ import annotations

from time import time_ns


def now_us() -> int:
    """Microseconds since the epoch."""
    return time_ns() // 1000
