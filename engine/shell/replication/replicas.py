"""Replicas of a master: the states of one replica, and the file with all data that it may need first.

                 the backlog has all bytes that the replica lacks
    WAITING ─────────────────────────────────────────────────────────────> ONLINE
       │ image taken              file sent                                  ^
       └─────────────> RECEIVING ────────────────────────────────────────────┘
                           │ only the file was requested
                           └─────────────────────────────────────────────> SERVED

A replica that needs all data is WAITING until an image of the data is taken. A thread writes the image to a temporary
file, in Redis's format or in the engine's own. The event loop sends the file's length, then its content, in slices, to
each receiver as fast as the receiver reads. While a replica is RECEIVING, the stream is queued for it. SERVED is for a
client that requested only the file.

All waiting replicas that need the same kind of file share one file. A replica that connects later joins them if nothing
of the file has been sent yet. Otherwise it waits for the next file.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Protocol

from engine.core.clients.session import AsReplica, Session
from engine.core.dispatch import Core
from engine.core.keyspace.image import ImageBuilder
from engine.settings.kinds import OutputLimit
from engine.shell.clock import now_us
from engine.shell.durability import psb, rdb_file
from engine.shell.durability.background import Attempt, Background, free_in_thread, run_when_complete
from engine.shell.durability.files import Files
from engine.shell.durability.position import Position
from engine.shell.observation.log_lines import LOG
from engine.shell.replication.history import History


class Sync(Enum):
    """Synchronisation state of one replica."""

    #: The replica needs a file with all data, which is not being written yet.
    WAITING = auto()
    #: The file is being written or sent. The stream is queued.
    RECEIVING = auto()
    #: The replica receives the stream.
    ONLINE = auto()
    #: The client has the file, and receives nothing else.
    SERVED = auto()


#: Names of the states in INFO.
_SHOWN = {Sync.WAITING: "wait_bgsave", Sync.RECEIVING: "send_bulk", Sync.ONLINE: "online"}

#: Capability of reading the engine's snapshots. Only engines have it. `benchmarks.engine.replication` shows the
#: difference to RDB: a second instead of half a minute for ten million entries.
_OWN = b"psb"

#: Maximum number of bytes to send per event-loop iteration, to one receiver and to all receivers together.
_SLICE_BYTES, _TURN_BYTES = 1 << 18, 1 << 20
#: Seconds after which to check again whether slow receivers have read more.
_CHECK_SECONDS = 0.002


class Peer(Protocol):
    """The connection of a replica. The network implements it."""

    session: Session
    transport: asyncio.Transport
    #: Whether the replica has too many unread bytes to receive more of a file now.
    clogged: bool
    #: Number of bytes received from the replica.
    received: int

    def send(self, parts: list[bytes | memoryview]) -> None:
        """Send bytes in order; the connection is closed if too many are unread."""

    def give_up(self, size: int) -> None:
        """Disconnect the replica, because ``size`` bytes waiting for it are too many."""


class Clients(Protocol):
    """The process and its clients. The network implements it."""

    #: Whether `fail` was called: no more commands run.
    failed: bool

    @property
    def connections(self) -> Mapping[int, Peer]:
        """Open connections by session ID."""

    def settle(self) -> None:
        """Deliver the results of core work outside a client's command."""

    def fail(self, error: BaseException) -> None:
        """End the process: the data may contain a half-done change."""

    def finish(self, session: Session) -> None:
        """Close a client's connection after sending its replies."""


@dataclass(slots=True, eq=False)
class Replica:
    """State of one replica. Times are in seconds, by the master's monotonic clock."""

    peer: Peer
    announced: AsReplica
    #: Time of the last acknowledgement.
    last_ack: float
    #: Whether the replica connected with SYNC, and so sends no acknowledgements.
    without_acks: bool
    #: Time of the last sign of life: reading some of the file; once online, sending anything.
    last_sign: float = 0.0
    #: Number of bytes received from the replica at ``last_sign``.
    received: int = 0
    #: Offset up to which the replica has applied the stream; -1 if unknown.
    offset: int = -1
    #: The stream since the image was taken, to be sent after the file.
    waiting: list[bytes | memoryview] = field(default_factory=list)
    waiting_size: int = 0
    _over_soft_since: float | None = None
    state: Sync = Sync.WAITING

    @property
    def name(self) -> str:
        """Address of the replica, for the log."""
        address, port = self.address
        return f"{address}:{port}" if port else address

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that the replica announced for clients. Without an announced host, the host of its connection;
        without an announced port, 0.
        """
        host = self.announced.address or self.peer.session.addr.rpartition(b":")[0].strip(b"[]")
        return host.decode("utf-8", "replace"), self.announced.port

    def has_sent_more(self) -> bool:
        """Return whether the replica has sent bytes since the last call. While it loads, it sends empty lines."""
        before, self.received = self.received, self.peer.received
        return before != self.received

    def lag(self, now: float) -> int:
        """Return the seconds since the replica's last acknowledgement."""
        return max(int(now - self.last_ack), 0)

    def described(self, now: float) -> str:
        """Return the replica's line in INFO."""
        host, port = self.address
        lag = self.lag(now) if self.state is Sync.ONLINE else 0
        return f"ip={host},port={port},state={_SHOWN[self.state]},offset={max(self.offset, 0)},lag={lag}"

    def queue(self, block: bytes, limit: OutputLimit, now: float) -> bool:
        """Queue bytes of the stream, to be sent after the file; return False if the queue exceeds the limit."""
        size = self.waiting_size + len(block)
        over = bool(limit.hard) and size > limit.hard
        if limit.soft and size > limit.soft:
            if self._over_soft_since is None:
                self._over_soft_since = now
            over = over or now - self._over_soft_since >= limit.seconds
        if not over:
            self.waiting.append(block)
        self.waiting_size = size
        return not over

    def take_queue(self) -> list[bytes | memoryview]:
        """Return the queued bytes, and empty the queue."""
        waiting, self.waiting = self.waiting, []
        self.waiting_size, self._over_soft_since = 0, None
        return waiting


class FullSyncs:
    """Full synchronisations of one master, one file at a time.

    ``go_online`` is called when a replica has its complete file, ``cut_off`` when it must synchronise again.
    """

    def __init__(
        self,
        core: Core,
        clients: Clients,
        history: History,
        loop: asyncio.AbstractEventLoop,
        background: Background,
        files: Files,
        clock: Callable[[], float],
        go_online: Callable[[Replica], None],
        cut_off: Callable[[Replica], None],
    ) -> None:
        self._core = core
        self._clients = clients
        self._history = history
        self._loop = loop
        self._background = background
        self._files = files
        self._clock = clock
        self._go_online = go_online
        self._cut_off = cut_off
        #: Replicas that need a file which is not being written yet.
        self._waiting: list[Replica] = []
        #: Replicas for which the stream is queued.
        self.behind: list[Replica] = []
        #: Receivers of the current file -> number of bytes sent.
        self._receivers: dict[Replica, int] = {}
        self._builder: ImageBuilder | None = None
        #: The current file while it is written; the mapping while it is sent has no name.
        self._attempt: Attempt | None = None
        self._file = memoryview(b"")
        self._start: asyncio.Handle | None = None
        #: Returns the database selected in the stream of this server's master; -1 if this server is the master.
        self.stream_db: Callable[[], int] = lambda: -1

    @property
    def is_sending(self) -> bool:
        """Whether a file is being sent, so that no replica can join."""
        return len(self._file) > 0

    def add(self, replica: Replica) -> None:
        """Serve a replica that needs a file: by the file that is being written, or by the next one."""
        if self._receivers and not self.is_sending:
            first = next(iter(self._receivers))
            if self._reads_own(replica) == self._reads_own(first) and first in self.behind:
                replica.waiting, replica.waiting_size = [*first.waiting], first.waiting_size
                self._receive(replica, self._history.offset - first.waiting_size)
                return
        self._waiting.append(replica)
        self._start_soon()

    def drop(self, replica: Replica) -> None:
        """Remove a disconnected replica."""
        for some in (self._waiting, self.behind):
            if replica in some:
                some.remove(replica)
        if self._receivers.pop(replica, None) is not None and not self._receivers:
            self._end()

    def close(self) -> None:
        """Stop everything: the process is exiting."""
        self._waiting = []
        if self._start is not None:
            self._start.cancel()
        self._end()

    def _reads_own(self, replica: Replica) -> bool:
        """Return whether a replica gets a file in the engine's own format, not an RDB file of ``rdb-version``. Replicas
        that need the same kind of file share one.
        """
        return _OWN in replica.announced.capabilities and not replica.announced.rdb_only

    def _start_soon(self) -> None:
        if self._start is None and not self._receivers and self._waiting:
            config = self._core.config
            # Other replicas can join until then. As in Redis, there is no pause without repl-diskless-sync.
            pause = config.integer("repl-diskless-sync-delay") if config.flag("repl-diskless-sync") else 0
            self._start = self._loop.call_later(pause, self._take_image)

    def _take_image(self) -> None:
        """Take an image for all waiting replicas that need the same file, and have it written."""
        self._start = None
        if not self._waiting or self._receivers or self._core.divided.postpones_image(self._take_image):
            return
        # Add the effects so far to the stream: the image contains them, so its offset must be after them.
        self._clients.settle()
        core, config, files = self._core, self._core.config, self._files
        core.changes.set_time(now_us())
        is_own = self._reads_own(self._waiting[0])
        version, db = config.integer("rdb-version"), self.stream_db()
        builder = self._builder = ImageBuilder(core.databases, core.changes.now)
        directory = Path(os.fsdecode(config.text("dir"))).absolute()
        attempt = self._attempt = Attempt(files, directory, "temp-", ".psb" if is_own else ".rdb")
        path, image = attempt.temporary, builder.image
        position = Position(self._history.id, self._history.offset, max(db, 0))
        self._history.db = -1
        receivers = [replica for replica in self._waiting if self._reads_own(replica) == is_own]
        self._waiting = [replica for replica in self._waiting if replica not in receivers]
        for replica in receivers:
            self._receive(replica, self._history.offset)
        names = ", ".join(replica.name for replica in receivers)
        LOG.info("full synchronisation of %s started at offset %d", names, self._history.offset)

        def write() -> None:
            check, pause = attempt.check, rdb_file.periodic_pause()
            if is_own:
                psb.write(files, path, image, check, position=position)
            else:
                about = {b"repl-stream-db": b"%d" % db} if db >= 0 else None
                rdb_file.write(files, path, image, version, about=about, check=check, pause=pause)
            # Free the image: it would keep data that is deleted meanwhile.
            image.free()

        def done(error: OSError | None) -> None:
            try:
                if error is None and not attempt.abandoned:
                    self._file = files.map(path)
            except OSError as problem:
                error = problem
            # The mapping remains valid without a name.
            attempt.remove()
            if attempt.abandoned:
                return
            if error is None:
                for replica in self._receivers:
                    replica.peer.send([b"$%d\r\n" % len(self._file)])
                self._send()
                return
            LOG.error("full synchronisation failed, disconnecting the replicas: %s", error)
            for replica in [*self._receivers]:
                self._cut_off(replica)

        def soon(step: Callable[[], None]) -> None:
            self._loop.call_soon(step)

        run_when_complete(builder, attempt, soon, lambda: self._background(write, done))

    def _receive(self, replica: Replica, offset: int) -> None:
        """Make a replica a receiver of the current file, whose image is of this offset."""
        self._receivers[replica] = 0
        replica.state = Sync.RECEIVING
        replica.last_sign = self._clock()
        if not replica.announced.rdb_only:
            self.behind.append(replica)
        if not replica.without_acks:
            replica.peer.send([b"+FULLRESYNC %b %d\r\n" % (self._history.id, offset)])

    def _send(self) -> None:
        """Send a slice to each receiver that has not too many unread bytes."""
        if not self.is_sending:
            return
        now, is_slow, size = self._clock(), True, len(self._file)
        share = min(_SLICE_BYTES, _TURN_BYTES // max(len(self._receivers), 1))
        for replica, at in [*self._receivers.items()]:
            if replica.peer.clogged or replica not in self._receivers:
                continue
            is_slow = False
            replica.last_sign = now
            end = self._receivers[replica] = min(at + share, size)
            replica.peer.send([bytes(self._file[at:end])])
            if end == size:
                self._sent(replica)
        if not self._receivers:
            LOG.info("full synchronisation: %d bytes sent", size)
            self._end()
        elif is_slow:
            self._loop.call_later(_CHECK_SECONDS, self._send)
        else:
            self._loop.call_soon(self._send)

    def _sent(self, replica: Replica) -> None:
        """Send the stream to a replica that has been sent its whole file."""
        del self._receivers[replica]
        if replica.announced.rdb_only:
            replica.state = Sync.SERVED
            return
        replica.state = Sync.ONLINE
        self.behind.remove(replica)
        self._go_online(replica)

    def _end(self) -> None:
        """Free the current file, which no receiver needs any more, and start the next one."""
        free_in_thread(self._file.release, len(self._file))
        self._file = memoryview(b"")
        if self._builder is not None and self._attempt is not None:
            self._builder.cancel()
            self._attempt.abandon()
        self._builder = self._attempt = None
        self._start_soon()
