"""Background work: a thread that syncs files, one that writes and deletes large files, and attempts to write a file.

Each thread runs its work in the order of the requests. Results are reported in the event loop. A file that is being
written has a unique temporary name until it is complete.

The event loop can abandon an attempt that runs in a thread. The writing then stops, at the latest before the file is
renamed, and the temporary file is removed. After `Attempt.abandon` has returned, the attempt changes no file except its
temporary one. Some images of the data take several event-loop iterations to complete before they can be written.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from engine.core.keyspace.image import ImageBuilder
from engine.shell.durability.files import Files

_numbers = itertools.count(1)


class AbandonedError(OSError):
    """The attempt was abandoned: the file is no longer needed."""


class Attempt:
    """A file being written in ``directory``. ``prefix``, ``suffix``: start and end of its temporary name."""

    def __init__(self, files: Files, directory: Path, prefix: str, suffix: str) -> None:
        self._files = files
        #: Temporary path. The process ID makes it unique among engines, the number among the attempts of this engine.
        self.temporary = directory / f"{prefix}{os.getpid()}-{next(_numbers)}{suffix}"
        self.abandoned = False
        #: Segment files that the file refers to; set after the file was written.
        self.named: frozenset[int] = frozenset()
        self._lock = threading.Lock()

    def abandon(self) -> None:
        """Mark the file as not needed. Call this in the event loop; it waits at most for a rename in progress."""
        with self._lock:
            self.abandoned = True

    def check(self) -> None:
        """Raise AbandonedError if the attempt was abandoned."""
        if self.abandoned:
            raise AbandonedError("abandoned")

    def put_in_place(self, path: Path) -> None:
        """Rename the file to its final name. Raise AbandonedError if the attempt was abandoned."""
        with self._lock:
            self.check()
            self._files.rename(self.temporary, path)

    def remove(self) -> None:
        """Remove the temporary file if it exists."""
        with suppress(OSError):
            self._files.remove(self.temporary)


#: Runs a function in the event loop, after the current callback.
Soon = Callable[[Callable[[], None]], None]


def run_when_complete(builder: ImageBuilder, attempt: Attempt, soon: Soon, work: Callable[[], None]) -> None:
    """Run ``work`` when the image is complete, unless the attempt is abandoned before that."""
    _Completing(builder, attempt, soon, work).step()


class _Completing:
    """Steps of one image. A recursive closure would be a reference cycle that keeps the image in memory."""

    __slots__ = ("_attempt", "_builder", "_soon", "_work")

    def __init__(self, builder: ImageBuilder, attempt: Attempt, soon: Soon, work: Callable[[], None]) -> None:
        self._builder = builder
        self._attempt = attempt
        self._soon = soon
        self._work = work

    def step(self) -> None:
        """Add some more keys to the image, and finish or schedule the next step."""
        if self._attempt.abandoned:
            self._builder.cancel()
        elif self._builder.step():
            self._work()
        else:
            self._soon(self.step)


Work = Callable[[], None]
#: Called in the event loop when the work has ended, with None or its error.
Done = Callable[[OSError | None], None]
#: Runs tasks in another thread, one after another, and reports each result in the event loop.
Background = Callable[[Work, Done], None]


#: Size in bytes above which a file or mapping is freed in a thread.
_LARGE = 1 << 20


def free_in_thread(free: Work, size: int) -> None:
    """Free an unlinked file, or its mapping, of ``size`` bytes. A large file is freed in a separate thread, because
    freeing takes a third of a millisecond per megabyte. ``free`` must not raise.
    """
    if size > _LARGE:
        threading.Thread(target=free, name="free").start()
    else:
        free()


class Workers(Protocol):
    """Threads for slow work."""

    def sync(self, work: Work, done: Done) -> None:
        """Run the work in the sync thread."""

    def save(self, work: Work, done: Done) -> None:
        """Run the work in the save thread."""

    def soon(self, work: Callable[[], None]) -> None:
        """Run the work in the event loop, after the current callback."""

    def close(self) -> None:
        """Finish the requested work and stop. Results are no longer reported."""


class Threads:
    """The two threads of one engine, started on first use."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._syncing = ThreadPoolExecutor(1, "sync")
        self._saving = ThreadPoolExecutor(1, "save")
        self._is_closed = False

    def sync(self, work: Work, done: Done) -> None:
        """Run work in the thread that syncs files."""
        self._submit(self._syncing, work, done)

    def save(self, work: Work, done: Done) -> None:
        """Run work in the thread that writes (or deletes) large files."""
        self._submit(self._saving, work, done)

    def _submit(self, executor: ThreadPoolExecutor, work: Work, done: Done) -> None:
        def finished(future: Future[None]) -> None:
            error = future.exception()
            if error is not None and not isinstance(error, OSError):
                # Report an unexpected exception as a failure of the disk.
                error = OSError(f"{type(error).__name__}: {error}")
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._tell, done, error)

        executor.submit(work).add_done_callback(finished)

    def _tell(self, done: Done, error: OSError | None) -> None:
        # After `close`, results are dropped, because the files may belong to another engine.
        if not self._is_closed:
            done(error)

    def soon(self, work: Callable[[], None]) -> None:
        """Run work in the event loop, after the current callback."""
        self._loop.call_soon(work)

    def close(self) -> None:
        """Finish the requested work, and stop the threads. Results are no longer reported."""
        self._is_closed = True
        self._saving.shutdown(wait=True)
        self._syncing.shutdown(wait=True)
