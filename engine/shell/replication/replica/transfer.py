"""Transfer of all data from the master into the core.

The data is written to a temporary file. A complete file is scanned for damage and for types that the engine does not
store, so that the old data is dropped only for data that can be loaded. Then it is loaded into separate databases,
which replace those of the core.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from engine.core.dispatch import Core
from engine.core.formats.rdb import value_reader
from engine.core.formats.rdb.reader import Loading, State, Summary
from engine.core.formats.unsupported_types import UnsupportedTypesError
from engine.core.keyspace.changes import Changes
from engine.core.keyspace.database import Database
from engine.shell.clock import now_us
from engine.shell.durability import psb, rdb_file
from engine.shell.durability.background import Attempt, free_in_thread
from engine.shell.durability.files import Files, write_all
from engine.shell.replication.replica.payload import Payload, PayloadError

#: Number of bytes of the file to read at a time.
_PIECE = 1 << 16
#: Microseconds of work per event-loop iteration.
_SHARE_US = 2000


class TransferError(Exception):
    """The data could not be received, stored or read: it must be requested again."""


class Transfer:
    """One full synchronisation.

    `work` raises DamagedError if the data is invalid, and ForeignError if the engine does not support a part of it.
    ``on_scanned`` is called when a file has been scanned and can be loaded.
    """

    def __init__(self, core: Core, clock: Callable[[], float], files: Files | None = None) -> None:
        self._clock = clock
        self._files = files or Files()
        self._payload = Payload()
        self._core = core
        # (The scan of a file compares the checksum, so loading does not.)
        self._fresh = IncomingData(core, check_sum=False)
        self._began = clock()
        #: Future of the thread that loads a file in the engine's own format; ``on_loaded`` is called at its end.
        self._snapshot_load: asyncio.Future[None] | None = None
        self.on_loaded: Callable[[], None] = lambda: None
        self.on_scanned: Callable[[], None] = lambda: None
        #: Scan of a complete RDB file; None before and after the scan.
        self._scan: IncomingData | None = None
        #: Whether everything has been loaded.
        self.is_done = False
        directory = Path(os.fsdecode(core.config.text("dir"))).absolute()
        self._attempt = Attempt(self._files, directory, "temp-", ".rdb")
        #: Descriptor of the file, first for writing, then for reading; -1 if closed.
        self._fd = -1
        try:
            self._fd = self._files.create(self._attempt.temporary)
        except OSError as error:
            raise TransferError(f"{self._attempt.temporary} cannot be written: {error.strerror}") from None

    # -- receiving ----------------------------------------------------------------------------------------------------

    @property
    def is_received(self) -> bool:
        """Whether all bytes have arrived."""
        return self._payload.is_complete

    def feed(self, data: bytes) -> bytes:
        """Process received bytes; return the bytes after the data. Raises TransferError if the data cannot be
        stored.
        """
        try:
            part, rest = self._payload.feed(data)
            if part:
                write_all(self._files, self._fd, [part])
        except PayloadError as error:
            raise TransferError(str(error)) from None
        except OSError as error:
            raise TransferError(f"the master's data cannot be written to 'dir': {error.strerror}") from None
        if self._payload.is_complete:
            self._start_reading()
        return rest

    def _start_reading(self) -> None:
        self._files.close(self._fd)
        self._fd = -1
        data = self._files.map(self._attempt.temporary)
        if psb.is_snapshot(data):
            self._attempt.remove()
            self._began = self._clock()
            self._snapshot_load = asyncio.get_running_loop().run_in_executor(None, self._fresh.load_own, data)
            self._snapshot_load.add_done_callback(lambda _: self.on_loaded())
            return
        data.release()
        self._fd = os.open(self._attempt.temporary, os.O_RDONLY | os.O_CLOEXEC)
        self._scan = IncomingData(self._core, only_scan=True)
        self._began = self._clock()
        # Remove the name, so that no other process finds the file, and it is freed when this process ends.
        self._attempt.remove()

    # -- reading ------------------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Load for about two milliseconds; return whether there is more to do now."""
        if self._snapshot_load is not None:
            if self._snapshot_load.done():
                self._snapshot_load.result()
                self.is_done = True
            return False
        until = now_us() + _SHARE_US
        try:
            while now_us() < until:
                reading = self._scan or self._fresh
                state = reading.work(until)
                if state is State.DONE and reading is self._fresh:
                    self._finish()
                    return False
                if state is State.DONE:
                    self._end_scan()
                elif state is State.HUNGRY:
                    piece = os.read(self._fd, _PIECE)
                    if piece:
                        reading.feed(piece)
                    else:
                        reading.end()
        except OSError as error:
            raise TransferError(f"the master's data cannot be read: {error.strerror}") from None
        return True

    def _end_scan(self) -> None:
        self._scan = None
        os.lseek(self._fd, 0, os.SEEK_SET)
        self.on_scanned()

    def _finish(self) -> None:
        if self._fresh.offset != self._payload.received:
            raise TransferError("bytes follow the end of the master's data")
        self.is_done = True

    @property
    def summary(self) -> Summary:
        """Summary of the loaded data."""
        return self._fresh.summary

    def put_in_place(self) -> None:
        """Replace the core's data with the loaded data."""
        self._fresh.put_in_place()

    def close(self) -> None:
        """Close and remove the file; ``on_loaded`` is no longer called."""
        self.on_loaded = lambda: None
        free_in_thread(partial(_close, self._files, self._fd, self._attempt), self._payload.received)
        self._fd = -1

    # -- facts --------------------------------------------------------------------------------------------------------

    @property
    def received(self) -> int:
        """Number of bytes received."""
        return self._payload.received

    @property
    def size(self) -> int:
        """Total number of bytes of the data; -1 if the master has not announced the number."""
        return self._payload.size

    @property
    def read(self) -> int:
        """Number of bytes loaded."""
        return self._payload.received if self.is_done else self._fresh.offset

    @property
    def seconds(self) -> float:
        """Seconds since loading started; before that, since receiving started."""
        return self._clock() - self._began


def _close(files: Files, fd: int, attempt: Attempt) -> None:
    """Close a file, if it is open, and remove it, if it exists."""
    if fd >= 0:
        with suppress(OSError):
            files.close(fd)
    attempt.remove()


class IncomingData:
    """Databases into which the master's data is loaded, separate from those of the core. With ``only_scan``, the data
    is only read past.

    `load_own` and `work` raise a DamagedError if the file is invalid, and UnsupportedTypesError if it has types that
    the engine does not store.
    """

    def __init__(self, core: Core, *, only_scan: bool = False, check_sum: bool = True) -> None:
        self._core = core
        self.streams = core.streams
        #: In these databases no key is watched or waited for, and none expires.
        self._changes = changes = Changes(core.changes.pick)
        changes.replaying = True
        changes.set_time(now_us())
        self.databases = [Database(db.index, changes) for db in core.databases]
        makers = value_reader.makers(core.config, core.streams.new)
        self._loading = Loading(self.databases, makers, only_scan=only_scan, check_sum=check_sum)

    def load_own(self, data: memoryview) -> None:
        """Load a complete snapshot in the engine's own format; call this in a background thread."""
        summary = self._loading.summary
        summary.keys = psb.load(data, self, rdb_file.periodic_pause(), left_out=summary.left_out)
        self._refuse_unsupported()

    def _refuse_unsupported(self) -> None:
        if self._loading.summary.left_out:
            raise UnsupportedTypesError(self._loading.summary.left_out)

    def feed(self, piece: bytes) -> None:
        """Add the next bytes of the file."""
        self._loading.feed(piece)

    def end(self) -> None:
        """Mark the end of the file."""
        self._loading.end()

    def work(self, until: int) -> State:
        """Load until the time ``until`` (microseconds), or until the file ends or more bytes are needed."""
        step = self._loading.step
        while (state := step()) is State.GOING:
            if now_us() >= until:
                break
        if state is State.DONE:
            self._refuse_unsupported()
        return state

    @property
    def summary(self) -> Summary:
        """Summary of the loaded data."""
        return self._loading.summary

    @property
    def offset(self) -> int:
        """Number of bytes of the file read so far."""
        return self._loading.offset

    def put_in_place(self) -> None:
        """Replace the core's data with this data, and free the old data."""
        core, changes = self._core, self._changes
        core.changes.set_time(now_us())
        changes.replaying = False
        changes.set_time(core.changes.now_us)
        for db, fresh in zip(core.databases, self.databases, strict=True):
            db.swap(fresh)
            fresh.clear()
        core.changes.discarded += changes.discarded
        core.changes.dirty += changes.dirty
