"""Full synchronisations of one master: grouping of replicas, and scheduling of files.

All waiting replicas that need the same kind of file share one file. A replica that connects later joins them if it
needs the same kind of file and nothing of the file has been sent yet. Otherwise it waits for the next file.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from engine.core.dispatch import Core
from engine.core.formats.rdb.value_reader import NEWEST_VERSION, VALKEY_VERSION
from engine.core.keyspace.image import ImageBuilder
from engine.shell.clock import now_us
from engine.shell.durability import psb, rdb_file
from engine.shell.durability.background import Attempt, Background
from engine.shell.durability.files import Files
from engine.shell.observation.log_lines import LOG
from engine.shell.replication.history import History
from engine.shell.replication.master.replica import Peer, Replica
from engine.shell.replication.master.roster import Roster
from engine.shell.replication.master.sync_states import SyncEvent
from engine.shell.replication.master.transfer import Transfer

#: Capability of reading the engine's snapshots. Only engines have it.
_OWN = b"psb"
#: Capability of reading RDB files of any version. Only engines have it.
_ANY_VERSION = b"rdb-any"
#: Capability that only Redis 8.0 and later announce.
_BY_CHANNEL = b"rdb-channel-repl"
#: Newest RDB version that Redis 8.0 reads.
_VERSION_OF_REDIS_8 = 12
#: Newest RDB version that Valkey 8 reads.
_VERSION_OF_VALKEY_8 = 11
#: First major version of Valkey that announces its version.
_OF_VALKEY = 8


class Clients(Protocol):
    """The runner of client commands, as replication needs it."""

    @property
    def connections(self) -> Mapping[int, Peer]:
        """Open connections by session ID."""

    def settle(self) -> None:
        """Deliver the results of core work outside a client's command."""


class Owner(Protocol):
    """The master, as full synchronisations need it."""

    def cut_off(self, replica: Replica) -> None:
        """Close a replica's connection, so that it must synchronise again."""

    def go_online(self, replica: Replica) -> None:
        """Start sending the stream, queued bytes first, to a replica that has its complete file."""

    def reselect_database(self) -> None:
        """Select the database again before the next command, for a replica whose stream starts here."""


class FullSyncs:
    """Full synchronisations of one master."""

    def __init__(
        self,
        core: Core,
        clients: Clients,
        history: History,
        roster: Roster,
        loop: asyncio.AbstractEventLoop,
        background: Background,
        owner: Owner,
        files: Files,
        clock: Callable[[], float],
    ) -> None:
        self._core = core
        self._clients = clients
        self._history = history
        self._roster = roster
        self._loop = loop
        self._background = background
        self._owner = owner
        self._files = files
        self._clock = clock
        self._transfer: Transfer | None = None
        self._start: asyncio.Handle | None = None
        #: Returns the database selected in the stream of this server's master; -1 if this server is the master.
        self.stream_db: Callable[[], int] = lambda: -1

    @property
    def is_sending(self) -> bool:
        """Whether a file is being sent."""
        return self._transfer is not None and self._transfer.is_sending

    def add(self, replica: Replica) -> None:
        """Schedule a file with all data for a replica."""
        if not self._join(replica):
            self._schedule_transfer()

    def drop(self, replica: Replica) -> None:
        """Remove a disconnected replica."""
        transfer = self._transfer
        if transfer is not None and replica in transfer.receivers:
            del transfer.receivers[replica]
            if not transfer.receivers:
                transfer.cancel()
                self._transfer = None
                self._schedule_transfer()

    def close(self) -> None:
        """Stop everything: the process is exiting."""
        if self._start is not None:
            self._start.cancel()
        if self._transfer is not None:
            self._transfer.cancel()

    def _version(self, replica: Replica) -> int:
        """Return the version of a replica's file: 0 for the engine's own format, otherwise the newest version of RDB
        that the replica can read, judging by its announcements. Replicas with the same version share one file.

        If the announcements do not show that version, as with Redis before 8.0, return ``rdb-version``. Also return
        ``rdb-version`` for a client that requests only the file.
        """
        configured, announced = self._core.config.integer("rdb-version"), replica.announced
        if announced.rdb_only:
            return configured
        if _OWN in announced.capabilities and self.stream_db() < 0:
            return 0
        if _ANY_VERSION in announced.capabilities:
            return NEWEST_VERSION
        major = announced.version.partition(b".")[0]
        if major.isdigit() and int(major) >= _OF_VALKEY:
            return VALKEY_VERSION if int(major) > _OF_VALKEY else _VERSION_OF_VALKEY_8
        return max(configured, _VERSION_OF_REDIS_8) if _BY_CHANNEL in announced.capabilities else configured

    def _join(self, replica: Replica) -> bool:
        """Add a replica to the receivers of a file that is not being sent yet, if possible; return whether it was
        added.
        """
        transfer = self._transfer
        if transfer is None or transfer.is_sending:
            return False
        first = next(iter(transfer.receivers))
        if self._version(replica) != self._version(first) or first not in self._roster.behind:
            return False
        replica.waiting, replica.waiting_size = [*first.waiting], first.waiting_size
        self._receive(replica, self._history.offset - first.waiting_size)
        transfer.receivers[replica] = 0
        return True

    def _schedule_transfer(self) -> None:
        """Start a transfer to the waiting replicas soon."""
        if self._start is None and self._transfer is None and self._roster.waiting():
            self._start = self._loop.call_soon(self._start_transfer)

    def _start_transfer(self) -> None:
        self._start = None
        waiting = self._roster.waiting()
        if not waiting or self._transfer is not None or self._core.divided.postpones_image(self._start_transfer):
            return
        version = self._version(waiting[0])
        receivers = [replica for replica in waiting if self._version(replica) == version]
        # Add the effects so far to the stream: the image contains them, so its offset must be after them.
        self._clients.settle()
        core, config = self._core, self._core.config
        core.changes.set_time(now_us())
        checksum, db = config.flag("rdbchecksum"), self.stream_db()
        about = {b"repl-stream-db": b"%d" % db} if db >= 0 else None
        builder = ImageBuilder(core.databases, config, core.changes.now)
        directory, files = Path(os.fsdecode(config.text("dir"))).absolute(), self._files
        attempt = Attempt(files, directory, "temp-", ".rdb" if version else ".psb")
        path, check, image = attempt.temporary, attempt.check, builder.image

        def write() -> None:
            if version:
                pause = rdb_file.periodic_pause()
                rdb_file.write(files, path, image, version, checksum=checksum, about=about, check=check, pause=pause)
            else:
                psb.write(files, path, image, check)

        transfer = self._transfer = Transfer(
            receivers, builder, attempt, files, self._loop, self._clock, self._sent, self._ended
        )
        self._owner.reselect_database()
        for replica in receivers:
            self._receive(replica, self._history.offset)
        names = ", ".join(replica.name for replica in receivers)
        LOG.info("full synchronisation of %s started at offset %d", names, self._history.offset)
        transfer.start(write, self._background)

    def _receive(self, replica: Replica, offset: int) -> None:
        replica.fire(SyncEvent.IMAGE_TAKEN)
        replica.last_sign = self._clock()
        if not replica.announced.rdb_only:
            self._roster.behind.append(replica)
        if not replica.without_acks:
            replica.peer.send([b"+FULLRESYNC %b %d\r\n" % (self._history.id, offset)])

    def _sent(self, replica: Replica) -> None:
        if replica.announced.rdb_only:
            replica.fire(SyncEvent.SENT_ALONE)
        else:
            replica.fire(SyncEvent.SENT)
            self._owner.go_online(replica)

    def _ended(self, transfer: Transfer, error: OSError | None) -> None:
        self._transfer = None
        if error is None:
            seconds = self._clock() - transfer.began
            LOG.info("full synchronisation: %d bytes sent in %.1f seconds", transfer.size, seconds)
        else:
            LOG.error("full synchronisation failed, disconnecting the replicas: %s", error)
            for replica in [*transfer.receivers]:
                self._owner.cut_off(replica)
        self._schedule_transfer()
