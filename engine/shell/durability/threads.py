"""Work beside the event loop: one thread that syncs files, one that writes snapshots.

Each does one thing after the other, in the order in which it was asked for. What it came to is told in the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

Work = Callable[[], None]
#: Told in the loop how the work ended: None, or the error.
Done = Callable[[OSError | None], None]


class Workers(Protocol):
    """Threads for what takes long."""

    def sync(self, work: Work, done: Done) -> None:
        """Do it in the thread that syncs."""

    def save(self, work: Work, done: Done) -> None:
        """Do it in the thread that saves."""

    def close(self) -> None:
        """Wait for what runs."""


class Threads:
    """The two threads of one engine; they are started when first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._syncing = ThreadPoolExecutor(1, "sync")
        self._saving = ThreadPoolExecutor(1, "save")

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
                self._loop.call_soon_threadsafe(done, error)

        executor.submit(work).add_done_callback(finished)

    def close(self) -> None:
        """Wait for what runs, and end."""
        self._saving.shutdown(wait=True)
        self._syncing.shutdown(wait=True)
