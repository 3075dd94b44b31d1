"""Background threads: one that syncs files, one that writes and deletes large files.

Each runs its work in the order of the requests. Results are reported in the event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

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
