r"""Link from a replica to its master, until the master's stream begins: socket, handshake, full synchronisation.

The replica starts: PING, AUTH if there is a password, REPLCONF about itself, then PSYNC with its history. Each command
waits for the reply to the previous one. The master's last line announces what it sends next: the rest of the history
(`Continue`), or all of its data (`Full`), as a file after its length: ``$<length>\r\n<that many bytes>``. Empty lines
may precede each line, as keepalives. The replica does not announce the capability ``eof``, so a master never sends a
file of unknown length.

The replica writes the file to its own disk. A complete file is loaded into separate databases in small steps, and
clients are served from the old data in between. If the file has neither damage nor types that the engine does not
store, these databases replace those of the core.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from mmap import mmap
from pathlib import Path
from typing import cast

from engine.core.dispatch import Core
from engine.core.formats.damage import UnsupportedTypesError
from engine.core.formats.rdb import value_reader
from engine.core.formats.rdb.reader import Loading, Summary
from engine.core.keyspace.changes import Changes
from engine.core.keyspace.database import Database
from engine.shell.clock import now_us
from engine.shell.durability import psb, rdb_file
from engine.shell.durability.background import Attempt, free_in_thread
from engine.shell.durability.files import Files, write_all

_FULL = re.compile(rb"\+FULLRESYNC ([0-9a-f]{40}) (-?[0-9]{1,19})")
_CONTINUE = re.compile(rb"\+CONTINUE(?: ([0-9a-f]{40}))?")
#: Errors of PING that only mean that AUTH is required first.
_UNKNOWN_YET = (b"-NOAUTH", b"-NOPERM", b"-ERR operation not permitted")
#: Maximum length of a master's line in bytes.
LINE_LIMIT = 1024
#: Maximum size of the line before a file.
_HEAD_LIMIT = 128
#: Microseconds of work per event-loop iteration.
_SHARE_US = 2000


class HandshakeError(Exception):
    """The master rejects this server as a replica, temporarily or permanently; the text is the reason."""


class FullSyncError(Exception):
    """The data could not be received, stored or read: it must be requested again."""


class MasterLink(asyncio.Protocol):
    """One connection to a master, opened by `open`. After `drop`, there are no callbacks.

    ``connected`` is called when the link is open, ``received`` with bytes, and ``lost`` with the reason if the link
    could not be opened, or is broken.
    """

    def __init__(
        self,
        connected: Callable[[], None],
        received: Callable[[bytes], None],
        lost: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._connected = connected
        self._received = received
        self._lost = lost
        self._clock = clock
        #: Whether the link has been lost or dropped.
        self.is_closed = False
        self._transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self.is_paused = False
        #: Time of the last bytes received, or of opening the link.
        self.received_at = clock()

    def open(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        """Connect; the owner's callbacks report the result."""
        self._opening = asyncio.get_running_loop().create_task(self._open(host, port, context))

    async def _open(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        name = host if context is not None else None
        try:
            await loop.create_connection(lambda: self, host, port, ssl=context, server_hostname=name)
        except (OSError, ValueError) as error:
            self._lose(str(error) or type(error).__name__)

    def drop(self) -> None:
        """Close the link."""
        self.is_closed = True
        if self._opening is not None:
            self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()

    def send(self, data: bytes) -> None:
        """Send bytes, if the link is open. (uvloop raises on writes to a closed transport.)"""
        transport = self._transport
        if transport is not None and data and not transport.is_closing():
            transport.write(data)

    def pause(self, wanted: bool) -> None:
        """Pause reading if ``wanted``, otherwise resume reading."""
        transport = self._transport
        if transport is not None and wanted != self.is_paused and not transport.is_closing():
            self.is_paused = wanted
            if wanted:
                transport.pause_reading()
            else:
                transport.resume_reading()

    @property
    def address(self) -> tuple[bytes, bytes]:
        """Addresses of the master and of this server on the link, in the form of CLIENT LIST."""
        if self._transport is None:
            return b"", b""
        found = (self._transport.get_extra_info(name) for name in ("peername", "sockname"))
        peer, local = (_shown(*address[:2]) if address else b"" for address in found)
        return peer, local

    # -- the transport's calls ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.is_closed:
            self._transport.abort()
            return
        self.received_at = self._clock()
        self._connected()

    def data_received(self, data: bytes) -> None:
        self.received_at = self._clock()
        if not self.is_closed:
            self._received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(str(exc) if exc is not None else "the master closed the connection")

    def _lose(self, why: str) -> None:
        was_closed, self.is_closed = self.is_closed, True
        # Later writes are discarded.
        self._transport = None
        if not was_closed:
            self._lost(why)


def _shown(host: str, port: int) -> bytes:
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()


@dataclass(frozen=True, slots=True)
class Introduction:
    """A replica's information about itself. ``user`` and ``password`` may be empty; ``port`` 0 is not sent."""

    user: bytes = b""
    password: bytes = field(default=b"", repr=False)
    port: int = 0
    address: bytes = b""
    #: Only engines read their own format (``psb``).
    capabilities: tuple[bytes, ...] = (b"psync2", b"psb")
    version: bytes = b""


@dataclass(frozen=True, slots=True)
class Full:
    """The master sends all data, then the stream after ``offset`` in the history ``id``."""

    id: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class Continue:
    """The master sends the stream from the requested offset on. ``id``: new ID of the history; empty if the ID does not
    change.
    """

    id: bytes = b""


class Handshake:
    """One handshake. ``history``: ID of the history and number of the first missing byte; None if all data is missing.

    ``hands_over``: the other server is a replica that is to become the master.
    """

    def __init__(
        self, introduction: Introduction, history: tuple[bytes, int] | None, *, hands_over: bool = False
    ) -> None:
        self._introduction = introduction
        self._history = history
        self._last = (b"FAILOVER",) if hands_over else ()
        #: Whether PSYNC has been sent: any later failure is a failure of PSYNC.
        self.has_asked = False
        self._steps = self._run()
        #: Result of the handshake; None until the master's last line.
        self.outcome: Full | Continue | None = None

    def start(self) -> bytes:
        """Return the first bytes to send."""
        return next(self._steps)

    def line(self, line: bytes) -> bytes:
        """Return the bytes to send after the master's line; empty if the line has set the outcome. Raises
        HandshakeError if the master rejects this server.

        An empty line is a keepalive.
        """
        if not line:
            return b""
        try:
            return self._steps.send(line)
        except StopIteration:
            return b""

    def _run(self) -> Generator[bytes, bytes, None]:
        introduction = self._introduction
        line = yield command(b"PING")
        if not line.startswith((b"+", *_UNKNOWN_YET)):
            raise HandshakeError(_rejection("PING", line))
        if introduction.password:
            words = (introduction.user, introduction.password) if introduction.user else (introduction.password,)
            line = yield command(b"AUTH", *words)
            if not line.startswith(b"+"):
                raise HandshakeError(_rejection("AUTH (masteruser, masterauth)", line))
        # Replies to REPLCONF are ignored, because a master may reject options that it does not support.
        if introduction.port:
            yield command(b"REPLCONF", b"listening-port", b"%d" % introduction.port)
        if introduction.address:
            yield command(b"REPLCONF", b"ip-address", introduction.address)
        yield command(
            b"REPLCONF", *(word for capability in introduction.capabilities for word in (b"capa", capability))
        )
        if introduction.version:
            yield command(b"REPLCONF", b"version", introduction.version)
        history, offset = self._history or (b"?", -1)
        self.has_asked = True
        self._conclude((yield command(b"PSYNC", history, b"%d" % offset, *self._last)))

    def _conclude(self, line: bytes) -> None:
        full, goes_on = _FULL.fullmatch(line), _CONTINUE.fullmatch(line)
        if full:
            self.outcome = Full(full[1], int(full[2]))
        elif goes_on and self._history is not None:
            self.outcome = Continue(goes_on[1] or b"")
        else:
            raise HandshakeError(_rejection("PSYNC", line))


def command(*words: bytes) -> bytes:
    """Return the bytes of a command."""
    return b"*%d\r\n%b" % (len(words), b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))


def _rejection(request: str, line: bytes) -> str:
    return f"the master replied to {request} with '{line[:200].decode('utf-8', 'backslashreplace')}'"


class Payload:
    """One file being received."""

    def __init__(self) -> None:
        self._head = b""
        #: Length announced by the master; -1 before that.
        self.size = -1
        #: Number of received bytes of the file.
        self.received = 0
        #: Whether the file is complete.
        self.is_complete = False

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Process bytes; return the bytes of the file, and the bytes after the file.

        Raises FullSyncError if the line before the file is invalid.
        """
        if self.size < 0:
            data = self._parse_head(data)
            if self.size < 0:
                return b"", b""
        part = data[: self.size - self.received]
        self.received += len(part)
        self.is_complete = self.received == self.size
        return part, data[len(part) :]

    def _parse_head(self, data: bytes) -> bytes:
        self._head = (self._head + data).lstrip(b"\n")
        line, end, rest = self._head.partition(b"\r\n")
        if not end:
            if len(self._head) > _HEAD_LIMIT:
                raise FullSyncError("the line before the master's data is too long")
            return b""
        if line[:1] != b"$" or not line[1:].isdigit():
            raise FullSyncError(f"the master sent '{line.decode('utf-8', 'backslashreplace')}' before its data")
        self.size, self._head = int(line[1:]), b""
        return rest


class FullSync:
    """One full synchronisation, announced by ``full``. Raises FullSyncError if the data cannot be stored.

    ``on_loaded`` is called when a thread has loaded the data.
    """

    def __init__(
        self,
        core: Core,
        clock: Callable[[], float],
        full: Full,
        on_loaded: Callable[[], None],
        files: Files | None = None,
    ) -> None:
        self._core = core
        self._clock = clock
        #: Announcement with the history of the data.
        self.full = full
        self._on_loaded = on_loaded
        self._files = files or Files()
        self.payload = Payload()
        self._began = clock()
        self.streams = core.streams
        # In these databases no key is watched or waited for, and none expires.
        self._changes = changes = Changes()
        changes.replaying = True
        changes.set_time(now_us())
        self.databases = [Database(db.index, changes) for db in core.databases]
        #: The complete file, mapped, and the reader of a file in Redis's format.
        self._data = memoryview(b"")
        self._reading: Loading | None = None
        self._summary = Summary()
        #: Future of the thread that loads a file in the engine's own format.
        self._snapshot_load: asyncio.Future[None] | None = None
        #: Whether everything has been loaded.
        self.is_done = False
        self._attempt = Attempt(self._files, Path(os.fsdecode(core.config.text("dir"))).absolute(), "temp-", ".rdb")
        #: Descriptor of the file while it is written; -1 if closed.
        self._fd = -1
        try:
            self._fd = self._files.create(self._attempt.temporary)
        except OSError as error:
            raise FullSyncError(f"{self._attempt.temporary} cannot be written: {error.strerror}") from None

    # -- receiving ----------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> bytes:
        """Process received bytes; return the bytes after the file. Raises FullSyncError if they cannot be stored."""
        part, rest = self.payload.feed(data)
        try:
            if part:
                write_all(self._files, self._fd, [part])
            if self.payload.is_complete:
                self._end_receiving()
        except OSError as error:
            raise FullSyncError(f"the master's data cannot be written to 'dir': {error.strerror}") from None
        return rest

    def _end_receiving(self) -> None:
        self._files.close(self._fd)
        self._fd = -1
        self._began = self._clock()
        data = self._data = self._files.map(self._attempt.temporary)
        if psb.is_snapshot(data):
            self._snapshot_load = asyncio.get_running_loop().run_in_executor(None, self._load_snapshot)
            self._snapshot_load.add_done_callback(lambda _: self._on_loaded())
        else:
            makers = value_reader.makers(self._core.config, self._core.streams.new)
            self._reading = Loading(data, self.databases, makers, left_out=self._summary.left_out)
        # Remove the name, so that no other process finds the file, and it is freed when this process ends.
        self._attempt.remove()

    def _load_snapshot(self) -> None:
        summary = self._summary
        summary.keys = psb.load(self._data, self, rdb_file.periodic_pause(), left_out=summary.left_out)
        position = psb.position_of(self._data)
        summary.about = position.about if position is not None else {}
        self._refuse_unsupported()

    def _refuse_unsupported(self) -> None:
        if self._summary.left_out:
            raise UnsupportedTypesError(self._summary.left_out)

    # -- loading ------------------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Load for about two milliseconds; return whether there is more to do now.

        Raises DamagedError if the data is invalid, and ForeignError if the engine does not support a part of it.
        """
        if self._snapshot_load is not None:
            if self._snapshot_load.done():
                self._snapshot_load.result()
                self.is_done = True
            return False
        assert self._reading is not None
        until = now_us() + _SHARE_US
        while self._reading.step():
            if now_us() > until:
                return True
        self._refuse_unsupported()
        if self._reading.offset != self.payload.received:
            raise FullSyncError("bytes follow the end of the master's data")
        self._summary = self._reading.summary
        self.is_done = True
        return False

    def put_in_place(self) -> Summary:
        """Replace the core's data with the loaded data, and close the synchronisation; return the data's summary."""
        core, changes = self._core, self._changes
        core.divided.finish_all()
        core.host.flush_effects()
        core.changes.set_time(now_us())
        changes.replaying = False
        changes.set_time(core.changes.now_us)
        for db, fresh in zip(core.databases, self.databases, strict=True):
            db.swap(fresh)
            fresh.clear()
        core.changes.discarded += changes.discarded
        core.changes.dirty += changes.dirty
        core.durability.data_replaced()
        self.close()
        return self._summary

    def close(self) -> None:
        """End the synchronisation, and remove the file; ``on_loaded`` is no longer called."""
        self._on_loaded = lambda: None
        # The segments of a file in the engine's own format are views of the mapped file.
        mapped = self._data if self._reading is not None else memoryview(b"")
        free_in_thread(partial(_close, self._files, self._fd, self._attempt, mapped), self.payload.received)
        self._fd, self._reading = -1, None

    # -- facts --------------------------------------------------------------------------------------------------------

    @property
    def read(self) -> int:
        """Number of bytes loaded."""
        if self.is_done:
            return self.payload.received
        return self._reading.offset if self._reading is not None else 0

    @property
    def seconds(self) -> float:
        """Seconds since loading started; before that, since receiving started."""
        return self._clock() - self._began


def _close(files: Files, fd: int, attempt: Attempt, mapped: memoryview) -> None:
    """Close a file, if it is open, remove it, if it exists, and free the file that is mapped."""
    if fd >= 0:
        with suppress(OSError):
            files.close(fd)
    attempt.remove()
    data = mapped.obj
    mapped.release()
    if isinstance(data, mmap):
        data.close()
