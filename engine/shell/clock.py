"""The time since the epoch, which tests can change.

The environment variable PYSTREAMS_ENGINE_CLOCK names a file whose first eight bytes are an offset
in microseconds (signed, little endian). The offset is added to the system's time and may increase at any moment.
"""

from __future__ import annotations

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
