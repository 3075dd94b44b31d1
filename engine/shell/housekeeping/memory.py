"""Memory of the process: ``maxmemory``, the resident size, and returning unused memory to the system.

The limit applies to the resident size of the whole process, with the interpreter and its libraries: the memory that the
machine or container has to provide. The size is measured at most once every tenth of a second, because a measurement
takes microseconds. In between, the bytes received from clients since the last measurement are added. Above the limit,
the cache of decompressed entries is emptied, and unused memory of the allocators is returned to the system, at most
once per second. If the size is still above the limit, commands that add data are rejected.

No key is ever evicted: data stays until it is deleted or expires. ``maxmemory-policy`` is ignored, and INFO reports
``noeviction``.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from engine.core.admission import Admission
from engine.settings.config import Config
from engine.shell.clock import now_us

_PAGE = resource.getpagesize()

#: glibc's malloc_trim: called with 0 it returns free memory to the system, without the GIL. None with another libc.
malloc_trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)


def resident() -> int:
    """Return the resident size of this process in bytes; on systems without ``/proc`` (macOS), the peak so far."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError):
        return most_resident()


def most_resident() -> int:
    """Return the peak resident size of this process in bytes. macOS reports bytes, other systems KiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def give_back() -> None:
    """Return unused memory of the allocators to the system. Returning much memory takes milliseconds."""
    if malloc_trim is not None:
        malloc_trim(0)


#: Minimum time between two measurements, in microseconds.
_EVERY_US = 100_000
#: Minimum time between two returns of memory, in microseconds: each return takes milliseconds.
_GIVE_BACK_US = 1_000_000


class MemoryLimit:
    """Sets ``admission.memory_full``. ``accepted`` returns the number of bytes received from clients so far,
    ``release`` empties the cache and returns memory to the system.
    """

    def __init__(
        self,
        config: Config,
        admission: Admission,
        accepted: Callable[[], int],
        release: Callable[[], None],
        measure: Callable[[], int] = resident,
        now: Callable[[], int] = now_us,
    ) -> None:
        self._config = config
        self._admission = admission
        self._accepted = accepted
        self._measure = measure
        self._release = release
        self._now_us = now
        self._measured_us = self._released_us = -_GIVE_BACK_US
        self._size = self._sent = 0
        #: ``maxmemory`` in bytes; if 0, there is no limit and `check` need not be called.
        self.limit = 0
        config.on_change("maxmemory", self._follow)
        self._follow()

    def _follow(self) -> None:
        self.limit = self._config.integer("maxmemory")
        self._admission.memory_full = False
        if self.limit:
            self._measured_us = -_EVERY_US
            self.check(self._now_us())

    def check(self, now_us: int) -> None:
        """Update ``memory_full``; call this before commands are run."""
        if not 0 <= now_us - self._measured_us < _EVERY_US:
            self._measure_now(now_us)
            if self._size > self.limit and not 0 <= now_us - self._released_us < _GIVE_BACK_US:
                self._released_us = now_us
                self._release()
                self._measure_now(now_us)
        used = self._size + self._accepted() - self._sent
        self._admission.memory_full = used > self.limit and self._admission.memory_counts

    def _measure_now(self, now_us: int) -> None:
        self._measured_us, self._size, self._sent = now_us, self._measure(), self._accepted()
