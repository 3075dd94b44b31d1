"""Work beside the event loop: one thread that syncs files, one that writes snapshots.

Each does one thing after the other, in the order in which it was asked for. What it came to is told in the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

Work = Callable[[], None]
#: Told in the loop how the work ended: None, or the error.
Done = Callable[[OSError | None], None]
#: Does work in another thread, one after the other, and tells the loop how it ended.
Background = Callable[[Work, Done], None]


#: What has more bytes than this is freed in a thread.
_LARGE = 1 << 20


def free_aside(free: Work, size: int) -> None:
    """Free a file without a name, or its mapping, of ``size`` bytes. A large one goes in a thread of its own, for which
    nobody waits: the system takes a third of a millisecond for a megabyte. ``free`` raises nothing.
    """
    if size > _LARGE:
        threading.Thread(target=free, name="free").start()
    else:
        free()


class Workers(Protocol):
    """Threads for what takes long."""

    def sync(self, work: Work, done: Done) -> None:
        """Do it in the thread that syncs."""

    def save(self, work: Work, done: Done) -> None:
        """Do it in the thread that saves."""

    def soon(self, work: Callable[[], None]) -> None:
        """Do it in the loop, when what runs there now is done."""

    def close(self) -> None:
        """Do what was asked for and wait for it. What it comes to is told no more."""


class Threads:
    """The two threads of one engine; they are started when first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._syncing = ThreadPoolExecutor(1, "sync")
        self._saving = ThreadPoolExecutor(1, "save")
        self._is_closed = False

    def sync(self, work: Work, done: Done) -> None:
        """Have a file synced."""
        self._submit(self._syncing, work, done)

    def save(self, work: Work, done: Done) -> None:
        """Have something large written (or deleted)."""
        self._submit(self._saving, work, done)

    def _submit(self, executor: ThreadPoolExecutor, work: Work, done: Done) -> None:
        def finished(future: Future[None]) -> None:
            error = future.exception()
            if error is not None and not isinstance(error, OSError):
                # A mistake of ours must not pass for success, nor end the thread's loop unheard.
                error = OSError(f"{type(error).__name__}: {error}")
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._tell, done, error)

        executor.submit(work).add_done_callback(finished)

    def _tell(self, done: Done, error: OSError | None) -> None:
        # After the end the files may belong to another engine.
        if not self._is_closed:
            done(error)

    def soon(self, work: Callable[[], None]) -> None:
        """Have something done in the loop."""
        self._loop.call_soon(work)

    def close(self) -> None:
        """Wait for what runs, and end."""
        self._is_closed = True
        self._saving.shutdown(wait=True)
        self._syncing.shutdown(wait=True)
