"""Packs segments that have gone cold, beside the event loop.

A sealed segment is cold when it has been sealed for ``stream-cold-age`` seconds. Its bytes do not change, so a thread
may compress them while commands run; the compressor holds no lock, and the thread does nothing else. The rest, a fifth
of the work, is done on the loop, where the result is put in place if the segment is still as it was.

What the thread costs the loop is the interpreter's lock. A thread that waits for it is woken in vain at each turn of
the loop until a *switch interval* is over, and waking takes the loop longer than packing would. So the interval is
short while the thread has something to do, and the lock is asked for as rarely as can be.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any

from engine.core.streams.compressed.codecs import compress
from engine.core.streams.compressed.packing import Packing
from engine.core.streams.segment import Segment
from engine.core.streams.storage import Storage
from engine.settings.config import Config

#: How often cold segments are looked for, in seconds, and how many of them go to the thread in one piece of work: the
#: loop's part of that takes a tenth of a millisecond for each.
_PERIOD = 0.1
_BATCH = 16
#: How often, in looks, what was freed goes back to the system at the most.
_TRIM_EVERY = 10
#: The interpreter's switch interval while the thread works, and else, in seconds.
_SOON, _USUAL = 2e-5, sys.getswitchinterval()

Work = list[tuple[Segment, Packing]]


class Freezer:
    """One core's. ``start`` and ``stop`` belong to the loop's thread, as all but the compression does."""

    def __init__(self, config: Config, storage: Storage, loop: asyncio.AbstractEventLoop) -> None:
        self._config = config
        self._storage = storage
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cold")
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False
        #: How many segments waited at each of the last looks: what waited an age ago is cold.
        self._waiting: deque[int] = deque()
        #: Something was freed; and how many looks ago that went back to the system last.
        self._freed = False
        self._untrimmed_looks = 0

    def start(self) -> None:
        """Look for cold segments from now on."""
        self._timer = self._loop.call_later(_PERIOD, self._look)

    def stop(self) -> None:
        """Look no more; what the thread still does comes to nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        sys.setswitchinterval(_USUAL)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _look(self) -> None:
        self._timer = self._loop.call_later(_PERIOD, self._look)
        looks = max(round(self._config.integer("stream-cold-age") / _PERIOD), 1)
        self._waiting.append(len(self._storage.sealed))
        while len(self._waiting) > looks:
            self._waiting.popleft()
        if len(self._waiting) == looks:
            self._freeze()
        self._untrimmed_looks += 1
        if self._freed and not self._busy and self._untrimmed_looks >= _TRIM_EVERY and _trim is not None:
            # The allocator would keep it.
            self._freed = False
            self._untrimmed_looks = 0
            self._hand_over(lambda _: None, _trim, 0)

    def _hand_over(self, then: Callable[[asyncio.Future[Any]], None], work: Callable[..., Any], *args: Any) -> None:
        """Give the thread, which is idle, something to do; ``then`` is called on the loop with what came of it."""
        self._busy = True
        sys.setswitchinterval(_SOON)

        def done(future: asyncio.Future[Any]) -> None:
            self._busy = False
            sys.setswitchinterval(_USUAL)
            if not future.cancelled():
                then(future)

        self._loop.run_in_executor(self._thread, work, *args).add_done_callback(done)

    def _freeze(self) -> None:
        """Pack what is cold, as much as goes to the thread in one piece of work, if it has none."""
        storage = self._storage
        codec = self._config.text("stream-cold-compression").decode()
        if codec == "no" or self._busy:
            return
        cold, done = storage.sealed.pop(min(self._waiting[0], len(storage.sealed)), _BATCH)
        self._waiting = deque(waited - done for waited in self._waiting)
        if cold:
            work = [(segment, Packing(segment.plain, codec, storage.cache)) for segment in cold]
            chunks = [chunk for _, packing in work for chunk in packing.chunks]
            self._hand_over(partial(self._install, work), compress, codec, chunks)

    def _install(self, work: Work, done: asyncio.Future[list[bytes]]) -> None:
        compressed = iter(done.result())
        for segment, packing in work:
            packed = packing.finish(list(islice(compressed, len(packing.chunks))))
            # A compaction may have given it another one meanwhile.
            if segment.body is packing.plain:
                segment.body = packed
        self._freed = True
        if self._timer is not None:
            self._freeze()


#: glibc's malloc_trim, None with another C library.
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
