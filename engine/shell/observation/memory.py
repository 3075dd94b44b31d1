"""``maxmemory``: how much memory the process uses, measured so rarely that it costs nothing, and if it is too much.

What counts is the resident size of the whole process, the interpreter and its libraries included: what the machine, or
a container, has to provide. It is read at most every tenth of a second; in between, the bytes that clients have sent
since then are added to it. Before commands are refused, memory that is free but still held is given back.
"""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from engine.core.admission import Admission
from engine.settings.config import Config
from engine.shell.clock import now_us

_PAGE = resource.getpagesize()
_EVERY_US = 100_000
#: Giving memory back takes milliseconds where there is much.
_GIVE_BACK_US = 1_000_000


def resident() -> int:
    """Bytes of memory in use by this process."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def give_back() -> None:
    """Return to the system what the allocators keep for later."""
    pa.default_memory_pool().release_unused()
    # Other C libraries than glibc do without.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class Memory:
    """Tells a core's ``admission`` whether memory is full. ``accepted`` gives how many bytes clients have sent."""

    def __init__(
        self,
        config: Config,
        admission: Admission,
        accepted: Callable[[], int],
        measure: Callable[[], int] = resident,
        release: Callable[[], None] = give_back,
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
        #: ``maxmemory`` in bytes; 0: none, and :meth:`look` need not be called.
        self.limit = 0
        config.on_change("maxmemory", self._follow)
        self._follow()

    def _follow(self) -> None:
        self.limit = self._config.integer("maxmemory")
        self._admission.memory_full = False
        if self.limit:
            self._measured_us = -_EVERY_US
            self.look(self._now_us())

    def look(self, now_us: int) -> None:
        """Before commands are run."""
        if not 0 <= now_us - self._measured_us < _EVERY_US:
            self._take(now_us)
            if self._size > self.limit and not 0 <= now_us - self._released_us < _GIVE_BACK_US:
                self._released_us = now_us
                self._release()
                self._take(now_us)
        self._admission.memory_full = self._size + self._accepted() - self._sent > self.limit

    def _take(self, now_us: int) -> None:
        self._measured_us, self._size, self._sent = now_us, self._measure(), self._accepted()
