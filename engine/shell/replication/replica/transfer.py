"""All data of a master on their way into the core.

As ``repl-diskless-load`` says they are written to a temporary file first, and read when all have come, or read as they
come. Either way they are read into databases of their own, which take the place of the core's when they are whole.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from engine.core.dispatch import Core
from engine.core.formats.rdb.reader import State, Summary
from engine.shell.clock import now_us
from engine.shell.durability.background.attempt import Attempt
from engine.shell.durability.background.threads import free_aside
from engine.shell.durability.files import Files, write_all
from engine.shell.durability.formats import snapshot
from engine.shell.replication.replica.fresh import Fresh
from engine.shell.replication.replica.payload import Payload, PayloadError

#: Bytes of the file that are read at a time.
_PIECE = 1 << 16
#: Microseconds of work in one event-loop iteration.
_SHARE_US = 2000
#: More bytes than this are not taken from the master before some were read.
_MOST_WAITING = 8 << 20


class TransferError(Exception):
    """The data did not come as a whole, or could not be kept: they are to be asked for again."""


class Transfer:
    """One full synchronisation. ``directly``: the data are read as they come, without a file.

    A ForeignError of any method says that there is something among them that the engine cannot take.
    """

    def __init__(self, core: Core, clock: Callable[[], float], *, directly: bool, files: Files | None = None) -> None:
        self._clock = clock
        self._files = files or Files()
        self._payload = Payload()
        skips = core.config.text("load-unknown") == b"skip"
        self._fresh = Fresh(core, skip_unknown=skips)
        self._attempt: Attempt | None = None
        #: The file: to be written, then to be read. -1: there is none.
        self._fd = -1
        self._began = clock()
        self.is_direct = directly
        #: A thread loads a file in the engine's own format; ``on_loaded`` is called when it has.
        self._own: asyncio.Future[None] | None = None
        self.on_loaded: Callable[[], None] = lambda: None
        #: All has been read.
        self.is_done = False
        if not directly:
            self._create(Path(os.fsdecode(core.config.text("dir"))).absolute())

    def _create(self, directory: Path) -> None:
        self._attempt = Attempt(self._files, directory, "temp-", ".rdb")
        try:
            self._fd = self._files.create(self._attempt.temporary)
        except OSError as error:
            raise TransferError(f"{self._attempt.temporary} cannot be written: {error.strerror}") from None

    # -- receiving ----------------------------------------------------------------------------------------------------

    @property
    def is_received(self) -> bool:
        """Whether all bytes have come."""
        return self._payload.is_complete

    def feed(self, data: bytes) -> bytes:
        """Take what has come; what stands behind the data. A TransferError where it cannot be kept."""
        try:
            part, rest = self._payload.feed(data)
            if part and self.is_direct:
                self._fresh.feed(part)
            elif part:
                write_all(self._files, self._fd, [part])
        except PayloadError as error:
            raise TransferError(str(error)) from None
        except OSError as error:
            raise TransferError(f"the master's data cannot be written to 'dir': {error.strerror}") from None
        if self._payload.is_complete:
            self._begin_reading()
        return rest

    def _begin_reading(self) -> None:
        if self.is_direct:
            self._fresh.end()
            return
        assert self._attempt is not None
        self._files.close(self._fd)
        self._fd = -1
        data = self._files.map(self._attempt.temporary)
        if snapshot.is_snapshot(data):
            self._attempt.remove()
            self._began = self._clock()
            self._own = asyncio.get_running_loop().run_in_executor(None, self._fresh.load_own, data)
            self._own.add_done_callback(lambda _: self.on_loaded())
            return
        data.release()
        self._fd = os.open(self._attempt.temporary, os.O_RDONLY | os.O_CLOEXEC)
        self._began = self._clock()
        # Nobody else is to find it, and it goes with this process.
        self._attempt.remove()

    # -- reading ------------------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Read for about two milliseconds; whether there is more to do now."""
        if self._own is not None:
            if self._own.done():
                self._own.result()
                self.is_done = True
            return False
        until = now_us() + _SHARE_US
        try:
            while now_us() < until:
                state = self._fresh.work(until)
                if state is State.DONE:
                    self._finish()
                    return False
                if state is State.HUNGRY:
                    if self.is_direct:
                        return False
                    piece = os.read(self._fd, _PIECE)
                    if piece:
                        self._fresh.feed(piece)
                    else:
                        self._fresh.end()
        except OSError as error:
            raise TransferError(f"the master's data cannot be read: {error.strerror}") from None
        return True

    def _finish(self) -> None:
        if not self.is_received or self._fresh.offset != self._payload.received:
            raise TransferError("bytes stand behind the end of the master's data")
        self.is_done = True

    @property
    def is_full(self) -> bool:
        """Whether no more bytes are to be taken before some have been read."""
        return self.is_direct and self._payload.received - self._fresh.offset > _MOST_WAITING

    @property
    def summary(self) -> Summary:
        """What has been read."""
        return self._fresh.summary

    def put_in_place(self) -> None:
        """The core has these data from now on."""
        self._fresh.put_in_place()

    def close(self) -> None:
        """Let go of the file; nothing of it is left, and nobody is told when a thread has loaded it."""
        self.on_loaded = lambda: None
        if self._attempt is not None:
            free_aside(partial(_close, self._files, self._fd, self._attempt), self._payload.received)
        self._fd = -1

    # -- what is told -------------------------------------------------------------------------------------------------

    @property
    def received(self) -> int:
        """How many bytes have come."""
        return self._payload.received

    @property
    def size(self) -> int:
        """How many will come; -1: the master has not said."""
        return self._payload.size

    @property
    def read(self) -> int:
        """How many have been read."""
        return self._payload.received if self.is_done else self._fresh.offset

    @property
    def seconds(self) -> float:
        """Since when they are being read, or received."""
        return self._clock() - self._began


def _close(files: Files, fd: int, attempt: Attempt) -> None:
    """Close a file, if it is open, and remove it, if it is there."""
    if fd >= 0:
        with suppress(OSError):
            files.close(fd)
    attempt.remove()
