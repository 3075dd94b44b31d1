"""Cold packer: compresses cold segments in a thread, and has them written to disk if streams are stored on disk.

A segment is cold when it has been sealed for ``stream-cold-age`` seconds. Its bytes do not change, so a thread can
compress them while commands run. The compressor releases the GIL, and the thread does nothing but compress. The event
loop does the rest, a fifth of the work: it first builds the index, and afterwards installs the result unless the
segment was replaced meanwhile.

If streams are stored on disk, the thread then writes packed segments to the *shelf*, and the event loop replaces their
bytes with references to the records on disk. Segments that the disk rejects stay in memory and are retried.

Because of the GIL the thread slows down the event loop. In each iteration the loop releases the GIL for a moment, which
wakes a thread that waits for it. By then, the loop has usually reacquired the GIL, and releases it again only after a
*switch interval*. Each such wake-up delays the loop more than compressing does. So the interval is short while the
thread works, and the thread takes the GIL as rarely as possible. It does one thing at a time: it compresses a batch,
writes a batch to disk, or returns freed memory to the system.
"""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any

from engine.core.streams.compressed.disk_entries import Place, Stored
from engine.core.streams.compressed.packed import Packed, compress
from engine.core.streams.packer import Packing, pack, unpacked
from engine.core.streams.segment import Body, Plain, Segment, Storage
from engine.settings.config import Config
from engine.shell.clock import Ticker
from engine.shell.housekeeping.memory import malloc_trim

#: Seconds between two searches for cold segments.
_PERIOD = 0.1
#: Packing a segment takes the event loop half a millisecond.
_BATCH = 2
#: 64 segments have 16 MB of frames.
_MOST_WAITING, _MOST_UNPACKED = 64, 128
#: Maximum number of segments stored together.
_STORED_AT_ONCE = 64
#: Number of searches to skip after the disk has rejected segments.
_REST = 10
#: Minimum number of searches between two returns of memory to the system.
_TRIM_EVERY = 10
#: The interpreter's switch interval in seconds while the thread works.
_SHORT_INTERVAL = 2e-5
#: The interpreter's switch interval in seconds while the thread does not work.
_USUAL_INTERVAL = sys.getswitchinterval()


#: Writes packed entries to disk; returns the location of each. Raises OSError if the disk rejects them. Called in a
#: thread.
Shelf = Callable[[Sequence[Packed]], Sequence[Place]]


class ColdPacker:
    """Packs the cold segments of one ``storage``, and stores them on the ``shelf`` if there is one. Call all methods in
    the event loop's thread.

    ``batch``: maximum number of segments packed together. If more than ``most_waiting`` segments wait until they are
    old enough, the thread packs the oldest without delay. If more than ``most_unpacked`` wait, the event loop packs
    segments itself, so that a load at full speed does not fill the memory.
    """

    def __init__(
        self,
        config: Config,
        storage: Storage,
        loop: asyncio.AbstractEventLoop,
        shelf: Shelf | None = None,
        *,
        batch: int = _BATCH,
        most_waiting: int = _MOST_WAITING,
        most_unpacked: int = _MOST_UNPACKED,
    ) -> None:
        self._config = config
        self._storage = storage
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cold")
        self._batch = batch
        self._most_waiting = most_waiting
        self._ticker: Ticker | None = None
        #: Whether the thread is working.
        self.is_working = False
        #: Length of the queue of sealed segments at each search within the last ``stream-cold-age`` seconds. Segments
        #: that were in the queue at the first of these searches are cold.
        self._queued: deque[int] = deque()
        #: Whether `_queued` covers ``stream-cold-age``, so that the age of segments is known.
        self._knows_age = False
        #: Whether packing or storing has freed memory that was not returned yet.
        self._freed = False
        #: Number of searches since memory was returned.
        self._searches_since_trim = 0
        self._shelf = shelf
        storage.sealed.stores = shelf is not None
        storage.sealed.relieve, storage.sealed.most = self._pack_at_once, most_unpacked
        #: Packed segments to be stored.
        self._unstored: deque[weakref.ref[Segment]] = deque()
        #: Number of searches until the next attempt to store packed segments.
        self._rest = 0

    def start(self) -> None:
        """Start searching for cold segments."""
        self._ticker = Ticker(self._loop, _PERIOD, self.search)

    def stop(self) -> None:
        """Stop searching. The result of work in progress is dropped."""
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None
        self._thread.shutdown(wait=False, cancel_futures=True)
        sys.setswitchinterval(_USUAL_INTERVAL)

    def search(self) -> None:
        """Give the thread work if it has none: segments to pack or to store, or memory to return."""
        age = max(round(self._config.integer("stream-cold-age") / _PERIOD), 1)
        self._queued.append(len(self._storage.sealed))
        while len(self._queued) > age:
            self._queued.popleft()
        self._knows_age = len(self._queued) == age
        self._searches_since_trim += 1
        self._rest = max(self._rest - 1, 0)
        if self.is_working:
            return
        if self._pack() or self._store():
            return
        if self._freed and self._searches_since_trim >= _TRIM_EVERY:
            self._trim()

    def _pack(self) -> bool:
        """Give the thread a batch of cold segments; return whether there are any."""
        storage = self._storage
        waiting = len(storage.sealed)
        oldest = max(min(self._queued[0], waiting) if self._knows_age else 0, waiting - self._most_waiting)
        cold, popped = storage.sealed.pop(oldest, self._batch) if oldest > 0 else ([], 0)
        self._took(popped)
        cold = cold or storage.sealed.pop_packed(self._batch)
        batch: list[tuple[Segment, Body, Packing]] = []
        for segment in cold:
            if segment.is_due:
                body = segment.body
                plain = unpacked(body) if isinstance(body, Packed) else segment.plain
                batch.append((segment, body, Packing(plain, storage.cache, segment.as_columns)))
            else:
                # The segment is packed already: it was loaded from a snapshot.
                self._unstored.append(weakref.ref(segment))
        if batch:
            chunks = [chunk for *_, packing in batch for chunk in packing.chunks]
            self._in_thread(partial(self._install_packed, batch), compress, chunks)
        return bool(batch)

    def _took(self, number: int) -> None:
        """Reduce the recorded lengths of the queue by the number of segments that were taken from its front."""
        self._queued = deque(max(queued - number, 0) for queued in self._queued)

    def _pack_at_once(self) -> None:
        """Pack the oldest waiting segment in the event loop."""
        storage = self._storage
        found, popped = storage.sealed.pop(len(storage.sealed), 1)
        self._took(popped)
        for segment in found:
            if isinstance(segment.body, Plain):
                segment.body = pack(segment.body, storage.cache, segment.as_columns)
                self._freed = True
            if self._shelf is not None:
                self._unstored.append(weakref.ref(segment))

    def _install_packed(self, batch: list[tuple[Segment, Body, Packing]], compressed: list[bytes]) -> None:
        """Install the compressed segments, and continue with the next batch."""
        rest = iter(compressed)
        for segment, body, packing in batch:
            packed = packing.finish(list(islice(rest, len(packing.chunks))))
            # A compaction may have replaced the body meanwhile.
            if segment.body is body:
                segment.body = packed
                if self._shelf is not None:
                    self._unstored.append(weakref.ref(segment))
        self._freed = True
        if not self._store():
            self._pack()

    def _store(self) -> bool:
        """Give the thread some packed segments to write to disk; return whether there are any."""
        shelf = self._shelf
        if shelf is None or self._rest:
            return False
        batch: list[tuple[Segment, Packed]] = []
        while self._unstored and len(batch) < _STORED_AT_ONCE:
            segment = self._unstored.popleft()()
            if segment is not None and isinstance(segment.body, Packed):
                batch.append((segment, segment.body))
        if batch:
            self._in_thread(partial(self._install_stored, batch), _write_to_shelf, shelf, [body for _, body in batch])
        return bool(batch)

    def _install_stored(self, batch: list[tuple[Segment, Packed]], places: Sequence[Place] | None) -> None:
        """Replace the segments' bytes with references to their records on disk, and continue with the next batch."""
        if places is None:
            # Put the batch back in front, in order, so that a stream's segments are in order on disk.
            self._unstored.extendleft(weakref.ref(segment) for segment, _ in reversed(batch))
            self._rest = _REST
            return
        cache = self._storage.cache
        for (segment, packed), place in zip(batch, places, strict=True):
            # A compaction may have replaced the body meanwhile.
            if segment.body is packed:
                segment.body = Stored(place, len(packed), packed.data_size, packed.last_id, cache, packed.number)
        self._freed = True
        if not self._pack():
            self._store()

    def _trim(self) -> None:
        """Return freed memory to the system. The allocator would keep it otherwise."""
        self._freed = False
        self._searches_since_trim = 0
        if malloc_trim is not None:
            self._in_thread(lambda _: None, malloc_trim, 0)

    def _in_thread(self, then: Callable[[Any], None], function: Callable[..., Any], *args: Any) -> None:
        """Call ``function`` in the thread. Afterwards, call ``then`` with the result in the event loop."""

        def done(future: asyncio.Future[Any]) -> None:
            self.is_working = False
            sys.setswitchinterval(_USUAL_INTERVAL)
            if self._ticker is not None and not future.cancelled():
                then(future.result())

        self.is_working = True
        sys.setswitchinterval(_SHORT_INTERVAL)
        self._loop.run_in_executor(self._thread, function, *args).add_done_callback(done)


def _write_to_shelf(shelf: Shelf, bodies: Sequence[Packed]) -> Sequence[Place] | None:
    """Write packed entries to the shelf and return the location of each; None if the disk rejects them, which the shelf
    logs.
    """
    try:
        return shelf(bodies)
    except OSError:
        return None
