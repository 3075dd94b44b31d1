"""Packs segments that have gone cold, beside the event loop.

A sealed segment is cold when it has been sealed for ``stream-cold-age`` seconds. Its bytes do not change, so a thread
may compress them while commands run (the compressor holds no lock); the result is put in place on the loop, if the
segment is still as it was.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from engine.core.dispatch import Core
from engine.core.entries import Plain
from engine.core.packed import Packed, pack
from engine.core.segment import Segment
from engine.core.storage import Storage

#: How often cold segments are looked for, in seconds, and how many of them go to the thread in one piece of work.
_PERIOD = 0.1
_BATCH = 32

#: Segments, and what their bodies were when the work was given out.
Work = list[tuple[Segment, Plain]]
Done = list[tuple[Segment, Plain, Packed]]


class Freezer:
    """One core's. ``start`` and ``stop`` belong to the loop's thread, as all but the compression does."""

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cold")
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False
        #: How many segments waited at each of the last looks: what waited an age ago is cold.
        self._waiting: deque[int] = deque()

    def start(self) -> None:
        """Look for cold segments from now on."""
        self._timer = self._loop.call_later(_PERIOD, self._look)

    def stop(self) -> None:
        """Look no more; what the thread still does comes to nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _look(self) -> None:
        self._timer = self._loop.call_later(_PERIOD, self._look)
        codec = self._core.config.text("stream-cold-compression").decode()
        sealed = self._core.storage.sealed
        looks = max(round(self._core.config.integer("stream-cold-age") / _PERIOD), 1)
        self._waiting.append(len(sealed))
        while len(self._waiting) > looks:
            self._waiting.popleft()
        if codec == "no" or self._busy or len(self._waiting) < looks:
            return
        storage = self._core.storage
        cold, done = storage.take_sealed(min(self._waiting[0], len(sealed)), _BATCH)
        self._waiting = deque(waited - done for waited in self._waiting)
        if cold:
            self._busy = True
            work = [(segment, segment.plain) for segment in cold]
            self._loop.run_in_executor(self._thread, _compress, work, codec, storage).add_done_callback(self._install)

    def _install(self, done: asyncio.Future[Done]) -> None:
        self._busy = False
        if done.cancelled():
            return
        for segment, plain, packed in done.result():
            # A compaction may have given it another one meanwhile.
            if segment.body is plain:
                segment.body = packed
        if self._timer is None:
            return
        # Soon, as this function's caller still holds on to what the packed ones were made of.
        self._loop.call_soon(self._give_back)
        if len(self._core.storage.sealed) > _BATCH:
            self._timer.cancel()
            self._look()

    def _give_back(self) -> None:
        """Have what was freed go back to the system; the allocator would keep it."""
        if self._timer is not None and _trim is not None:
            self._thread.submit(_trim, 0)


def _compress(work: Work, codec: str, storage: Storage) -> Done:
    return [(segment, plain, pack(plain, codec, storage)) for segment, plain in work]


#: glibc's malloc_trim, None with another C library.
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
