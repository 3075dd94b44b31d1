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
from functools import partial
from pathlib import Path

from engine.core.dispatch import Core
from engine.core.keyspace.image import Image, ImageBuilder, capture
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


class Workers:
    """The two threads of one engine, started on first use, and its event loop."""

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


class Writing:
    """The writing of one kind of file with an image of all data: one file at a time, on request or when it is due.

    Before an image is taken, the effects so far are passed to the log: the image contains them. ``on_ended`` is called
    at the end of a background attempt that was not abandoned. The thread of an abandoned attempt stops soon, and its
    file is removed. Another attempt may start immediately.
    """

    def __init__(
        self,
        core: Core,
        workers: Workers,
        clock: Callable[[], float],
        on_ended: Callable[[], None],
    ) -> None:
        self._core = core
        self._workers = workers
        self._clock = clock
        self._on_ended = on_ended
        #: Whether a file is to be written as soon as possible.
        self.is_scheduled = False
        #: The file that is being written.
        self._attempt: Attempt | None = None
        #: Start of the last attempt, by ``clock``.
        self._began = 0.0
        #: Duration of the last attempt in seconds; -1 before the first one ends.
        self._last_seconds = -1
        self.last_ok = True
        #: Earliest time of the next automatic attempt, by ``clock``.
        self._retry_at = 0.0

    @property
    def is_running(self) -> bool:
        """Whether a file is being written."""
        return self._attempt is not None

    @property
    def _seconds(self) -> int:
        """Seconds since the start of the running attempt; -1 if no attempt is running."""
        return int(self._clock() - self._began) if self.is_running else -1

    def ask(self) -> None:
        """Request a file as soon as possible."""
        self.is_scheduled = True

    def abandon(self) -> None:
        """Cancel the attempt that is running or requested, if any."""
        self.is_scheduled = False
        if self._attempt is not None:
            self._attempt.abandon()
            self._attempt = None

    def _write_in_background(
        self, attempt: Attempt, write: Callable[[Image], None], done: Callable[[Exception | None], None]
    ) -> None:
        """Take an image of this moment, and write it in a thread. ``done``: called in the event loop at the end."""
        builder = ImageBuilder(self._core.databases, self._core.changes.now)
        self._attempt, self._began = attempt, self._clock()
        work = partial(self._write, attempt, builder.image, write)
        run_when_complete(builder, attempt, self._workers.soon, lambda: self._workers.save(work, done))

    def _write_now(self, attempt: Attempt, write: Callable[[Image], None]) -> None:
        """Write an image of this moment before returning."""
        self._attempt, self._began = attempt, self._clock()
        self._write(attempt, capture(self._core.databases, self._core.changes.now), write)

    def _write(self, attempt: Attempt, image: Image, write: Callable[[Image], None]) -> None:
        try:
            write(image)
        except OSError:
            attempt.remove()
            raise

    def _end(self, error: Exception | None, pause: float) -> None:
        """Record the end of an attempt. After an error, the next automatic attempt waits ``pause`` seconds."""
        attempt, self._attempt = self._attempt, None
        self._last_seconds = int(self._clock() - self._began)
        self.last_ok = error is None
        self._retry_at = self._clock() + pause if error is not None else 0.0
        if attempt is not None and error is not None:
            attempt.remove()


def run_when_complete(
    builder: ImageBuilder, attempt: Attempt, soon: Callable[[Work], None], work: Callable[[], None]
) -> None:
    """Run ``work`` when the image is complete, unless the attempt is abandoned before that. ``soon`` runs a function in
    the event loop, after the current callback.
    """
    if attempt.abandoned:
        builder.cancel()
    elif builder.step():
        work()
    else:
        soon(lambda: run_when_complete(builder, attempt, soon, work))
