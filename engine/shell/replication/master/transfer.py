"""Transfer of a full synchronisation: the data of one moment, written once and sent to one replica or several.

There are three forms. The file of the form `RDB_BY_MARK` is made while it is sent, a slice per event-loop iteration,
and ends with a mark that its first line announces. For the other forms, a thread writes a temporary file, in Redis's
format or in the engine's own, and its length is sent before its content.

The slowest receiver sets the pace for all: the file is made once, and the next slice is not made while a receiver has
too many unread bytes. The owner disconnects a receiver that reads nothing for ``repl-timeout``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from engine.core.formats.rdb import writer
from engine.core.keyspace.image import Image, ImageBuilder
from engine.shell.durability import psb, rdb_file
from engine.shell.durability.background import Attempt, Background, free_in_thread
from engine.shell.durability.files import Files
from engine.shell.observation.log_lines import LOG
from engine.shell.replication.master.replica import Replica

#: Approximate maximum of the seconds in which a slice is made in the event loop.
_SLICE = 0.001
#: Approximate maximum size in bytes of a slice.
_SLICE_BYTES = 1 << 18
#: Approximate number of bytes to send per event-loop iteration, to all receivers together.
_TURN_BYTES = 1 << 20
#: Seconds after which to check again whether slow receivers have read more.
_CHECK_SECONDS = 0.002


class Form(Enum):
    """Form of the file. The values are the suffixes of temporary files."""

    RDB_BY_MARK = ""
    RDB_BY_LENGTH = ".rdb"
    OWN_BY_LENGTH = ".psb"


class Transfer:
    """One file, for ``receivers``. ``ended`` is called with None when all of it has been sent, or with an error."""

    def __init__(
        self,
        form: Form,
        receivers: list[Replica],
        builder: ImageBuilder,
        options: dict[str, Any],
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[Transfer, OSError | None], None],
    ) -> None:
        self.form = form
        self.receivers = receivers
        #: Whether the header has been sent, after which no replica can join.
        self.is_sending = False
        self.began = time.monotonic()
        self.size = 0
        self._builder = builder
        self._options = options
        self._loop = loop
        self._ended = ended
        self._attempt: Attempt | None = None
        #: The mapped file that is being sent, if any; its name has been removed.
        self._file = memoryview(b"")
        self._is_over = False
        self._stretches: Iterator[tuple[bytes, bool]] | None = None
        #: The current slice.
        self._stretch = b""
        #: Whether the current slice is the last one.
        self._is_last = False
        #: Receivers to which the current slice has not been sent, in reverse order.
        self._unsent: list[Replica] = []

    def start(self, mark: bytes, files: Files, directory: Path, background: Background) -> None:
        """Take the image over several iterations, then write and send it. ``mark``: end of a file of the form
        `RDB_BY_MARK`.
        """
        if self._is_over:
            self._builder.cancel()
        elif not self._builder.step():
            # Not a recursive closure, whose reference cycle would keep the image.
            self._loop.call_soon(self.start, mark, files, directory, background)
        elif self.form is Form.RDB_BY_MARK:
            self._stretches = _by_mark(self._builder.image, self._options, mark)
            self._loop.call_soon(self._step)
        else:
            self._write(files, directory, background)

    def _write(self, files: Files, directory: Path, background: Background) -> None:
        attempt = self._attempt = Attempt(files, directory, "temp-", self.form.value)
        image = self._builder.image

        def write() -> None:
            if self.form is Form.OWN_BY_LENGTH:
                psb.write(files, attempt.temporary, image, attempt.check)
            else:
                pause = rdb_file.periodic_pause()
                rdb_file.write(files, attempt.temporary, image, check=attempt.check, pause=pause, **self._options)
            # Free the image: it would keep data that is deleted meanwhile.
            image.free()

        def done(error: OSError | None) -> None:
            data = memoryview(b"")
            if error is None and not self._is_over:
                try:
                    data = self._file = files.map(attempt.temporary)
                except OSError as problem:
                    error = problem
            # The mapping remains valid without a name.
            attempt.remove()
            if self._is_over:
                return
            if error is not None:
                self._end(error)
            else:
                self._stretches = _by_length(data)
                self._step()

        background(write, done)

    def cancel(self) -> None:
        """Cancel the transfer: no receiver needs it any more."""
        self._is_over = True
        self._stretches = None
        free_in_thread(self._file.release, len(self._file))
        self._file = memoryview(b"")
        self._builder.cancel()
        if self._attempt is not None:
            self._attempt.abandon()

    def _end(self, error: OSError | None) -> None:
        self.cancel()
        self._ended(self, error)

    # -- sending ------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Send the current slice to more receivers. When all have it and none has too many unread bytes, make the next
        slice.
        """
        if self._stretches is None:
            return
        self.is_sending = True
        if not self._unsent:
            if self._is_slow():
                self._loop.call_later(_CHECK_SECONDS, self._step)
                return
            try:
                self._stretch, self._is_last = next(self._stretches)
            except Exception as error:  # noqa: BLE001 - any error leaves the file incomplete
                LOG.exception("cannot make the file for replicas")
                self._end(OSError(str(error)))
                return
            self.size += len(self._stretch)
            self._unsent = self.receivers[::-1] if self._stretch else []
        left = _TURN_BYTES
        while self._unsent and left > 0:
            replica = self._unsent.pop()
            if replica in self.receivers:
                replica.peer.send([self._stretch])
                left -= len(self._stretch)
        if self._is_last and not self._unsent:
            # End in the step that sends the last slice, because a replica may acknowledge the file immediately.
            self._end(None)
        else:
            self._loop.call_soon(self._step)

    def _is_slow(self) -> bool:
        """Return whether any receiver has too many unread bytes. Record that the other receivers have made progress."""
        now = time.monotonic()
        slow = False
        for replica in self.receivers:
            if replica.peer.clogged:
                slow = True
            else:
                replica.last_progress = now
        return slow


def _by_mark(image: Image, options: dict[str, Any], mark: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the RDB file, between ``$EOF:<mark>`` and the mark, as (slice, whether it is the last)."""
    gathered = [b"$EOF:%b\r\n" % mark]
    size = 0
    end = time.perf_counter() + _SLICE
    for piece in writer.write(image, **options):
        gathered.append(piece)
        size += len(piece)
        if size >= _SLICE_BYTES or time.perf_counter() > end:
            yield b"".join(gathered), False
            gathered, size = [], 0
            end = time.perf_counter() + _SLICE
    yield b"".join((*gathered, mark)), True


def _by_length(data: memoryview) -> Iterator[tuple[bytes, bool]]:
    size = len(data)
    yield b"$%d\r\n" % size, not size
    for at in range(0, size, _SLICE_BYTES):
        yield bytes(data[at : at + _SLICE_BYTES]), at + _SLICE_BYTES >= size
