"""Full synchronisations of one master: grouping of replicas, and scheduling of files.

All waiting replicas that need the same kind of file share one file. A replica that connects later joins them if it
needs the same kind of file and nothing of the file has been sent yet. Otherwise it waits for the next file.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from engine.core.dispatch import Core
from engine.core.formats.rdb.value_reader import NEWEST_VERSION, VALKEY_VERSION
from engine.core.keyspace.image import ImageBuilder
from engine.shell.clock import now_us
from engine.shell.durability.background import Background
from engine.shell.durability.files import Files
from engine.shell.observation.log_lines import LOG
from engine.shell.replication.history import History
from engine.shell.replication.master.replica import Peer, Replica
from engine.shell.replication.master.roster import Roster
from engine.shell.replication.master.sync_states import SyncEvent
from engine.shell.replication.master.transfer import Form, Transfer

#: Capability of reading files that end with a mark.
_BY_MARK = b"eof"
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
_MARK_DIGITS = 40


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
    """Full synchronisations of one master. ``draw(n)`` returns a random number in 0 .. n-1."""

    def __init__(
        self,
        core: Core,
        clients: Clients,
        history: History,
        roster: Roster,
        loop: asyncio.AbstractEventLoop,
        background: Background,
        draw: Callable[[int], int],
        owner: Owner,
        files: Files,
    ) -> None:
        self._core = core
        self._clients = clients
        self._history = history
        self._roster = roster
        self._loop = loop
        self._background = background
        self._draw = draw
        self._owner = owner
        self._files = files
        self._transfer: Transfer | None = None
        self._start_timer: asyncio.TimerHandle | None = None
        #: Whether the last attempt to write a file to disk failed.
        self._is_disk_bad = False
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
            transfer.receivers.remove(replica)
            if not transfer.receivers:
                transfer.cancel()
                self._transfer = None
                self._schedule_transfer()

    def close(self) -> None:
        """Stop everything: the process is exiting."""
        if self._start_timer is not None:
            self._start_timer.cancel()
        if self._transfer is not None:
            self._transfer.cancel()

    def _form(self, replica: Replica) -> Form:
        capabilities = replica.announced.capabilities
        by_mark = _BY_MARK in capabilities and (
            self._core.config.flag("repl-diskless-sync") or replica.announced.rdb_only
        )
        accepts_own = _OWN in capabilities and not replica.announced.rdb_only and self.stream_db() < 0
        if accepts_own and not (self._is_disk_bad and by_mark):
            return Form.OWN_BY_LENGTH
        return Form.RDB_BY_MARK if by_mark else Form.RDB_BY_LENGTH

    def _kind(self, replica: Replica) -> tuple[Form, int]:
        """Return the form and the version of a replica's file. Replicas for which both are equal share one file."""
        return self._form(replica), self._version(replica)

    def _version(self, replica: Replica) -> int:
        """Return the RDB version for a replica: the newest one that it can read, judging by its announcements.

        If the announcements do not show that version, as with Redis before 8.0, return ``rdb-version``. Also return
        ``rdb-version`` for a client that requests only the file.
        """
        configured, announced = self._core.config.integer("rdb-version"), replica.announced
        if announced.rdb_only:
            return configured
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
        first = transfer.receivers[0]
        if self._kind(replica) != self._kind(first) or first not in self._roster.behind:
            return False
        replica.waiting, replica.waiting_size = [*first.waiting], first.waiting_size
        self._receive(replica, self._history.offset - first.waiting_size)
        transfer.receivers.append(replica)
        return True

    def _schedule_transfer(self) -> None:
        """Start a transfer to the waiting replicas, after a delay if others may join."""
        waiting = self._roster.waiting()
        if not waiting or self._transfer is not None:
            return
        config = self._core.config
        most = config.integer("repl-diskless-sync-max-replicas")
        at_once = any(replica.announced.rdb_only or self._form(replica) is not Form.RDB_BY_MARK for replica in waiting)
        if at_once or (most and len(waiting) >= most):
            self._start_transfer_after(0)
        elif self._start_timer is None:
            self._start_transfer_after(config.integer("repl-diskless-sync-delay"))

    def _start_transfer_after(self, seconds: float) -> None:
        if self._start_timer is not None:
            self._start_timer.cancel()
        self._start_timer = self._loop.call_later(seconds, self._start_transfer)

    def _start_transfer(self) -> None:
        self._start_timer = None
        waiting = self._roster.waiting()
        if not waiting or self._transfer is not None or self._core.divided.postpones_image(self._start_transfer):
            return
        form, version = kind = self._kind(waiting[0])
        receivers = [replica for replica in waiting if self._kind(replica) == kind]
        # Add the effects so far to the stream: the image contains them, so its offset must be after them.
        self._clients.settle()
        core, config = self._core, self._core.config
        core.changes.set_time(now_us())
        options: dict[str, Any] = {"version": version, "checksum": config.flag("rdbchecksum")}
        if self.stream_db() >= 0:
            options["about"] = {b"repl-stream-db": b"%d" % self.stream_db()}
        builder = ImageBuilder(core.databases, config, core.changes.now)
        transfer = Transfer(form, receivers, builder, options, self._loop, self._ended)
        self._transfer = transfer
        self._owner.reselect_database()
        for replica in receivers:
            self._receive(replica, self._history.offset)
        names = ", ".join(replica.name for replica in receivers)
        LOG.info("full synchronisation (%s) of %s started at offset %d", form.name, names, self._history.offset)
        mark = b"".join(b"%x" % self._draw(16) for _ in range(_MARK_DIGITS))
        directory = Path(os.fsdecode(config.text("dir"))).absolute()
        transfer.start(mark, self._files, directory, self._background)

    def _receive(self, replica: Replica, offset: int) -> None:
        replica.fire(SyncEvent.IMAGE_TAKEN)
        replica.last_progress = time.monotonic()
        if not replica.announced.rdb_only:
            self._roster.behind.append(replica)
        if not replica.without_acks:
            replica.peer.send([b"+FULLRESYNC %b %d\r\n" % (self._history.id, offset)])

    def _ended(self, transfer: Transfer, error: OSError | None) -> None:
        self._transfer = None
        receivers = transfer.receivers
        if transfer.form is not Form.RDB_BY_MARK:
            self._is_disk_bad = error is not None
        if error is not None:
            LOG.error("full synchronisation failed, disconnecting the replicas: %s", error)
            for replica in receivers[:]:
                self._owner.cut_off(replica)
        else:
            seconds = time.monotonic() - transfer.began
            LOG.info("full synchronisation: %d bytes sent in %.1f seconds", transfer.size, seconds)
            for replica in receivers:
                self._sent(replica, transfer.form)
        self._schedule_transfer()

    def _sent(self, replica: Replica, form: Form) -> None:
        if replica.announced.rdb_only:
            replica.fire(SyncEvent.SENT_ALONE)
        elif form is Form.RDB_BY_MARK and not replica.without_acks:
            replica.last_ack = time.monotonic()
            replica.fire(SyncEvent.MARKED)
            if replica.has_answered:
                # The replica has acknowledged the file before this callback.
                replica.fire(SyncEvent.ACKNOWLEDGED)
                self._owner.go_online(replica)
        else:
            replica.fire(SyncEvent.SENT)
            self._owner.go_online(replica)
