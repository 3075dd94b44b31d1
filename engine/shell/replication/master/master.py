"""A server as a master: who its replicas are, what they are fed, who gets which file when.

Effects become the stream: encoded once, counted by the history, sent to each replica that is online, and kept for those
who get a file first. A file is made for all who wait and can read the same form; who comes later waits for the next
one, or joins where nothing has been sent yet.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import hiredis

from engine.core.admission import Refusal
from engine.core.clients.replica import AsReplica
from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.keyspace.changes import Effects
from engine.core.keyspace.image import Taking
from engine.settings.kinds import OutputLimit
from engine.shell.clock import now_us
from engine.shell.durability.background.threads import Background
from engine.shell.durability.files import Files
from engine.shell.durability.log.writer import encoded
from engine.shell.observation.reporting import LOG
from engine.shell.replication.history import History
from engine.shell.replication.master.replica import Peer, Replica
from engine.shell.replication.master.states import Sync, SyncEvent
from engine.shell.replication.master.transfer import Form, Transfer
from engine.text.messages import server

_PING, _GETACK = b"*1\r\n$4\r\nPING\r\n", b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n"
_OWN, _BY_MARK = b"psb", b"eof"
_MARK_DIGITS = 40


class Clients(Protocol):
    """Who runs the clients' commands, as replication knows him."""

    @property
    def connections(self) -> Mapping[int, Peer]:
        """The open connections by session."""

    def settle(self) -> None:
        """Deliver what the core did while no client's commands ran."""


class Master:
    """One server's. ``on_feeding`` is told whether effects are wanted; ``draw(n)`` draws a number in 0 .. n-1."""

    def __init__(
        self,
        core: Core,
        clients: Clients,
        history: History,
        loop: asyncio.AbstractEventLoop,
        background: Background,
        on_feeding: Callable[[bool], None],
        draw: Callable[[int], int],
        files: Files | None = None,
    ) -> None:
        self._core = core
        self._clients = clients
        self._loop = loop
        self._background = background
        self._on_feeding = on_feeding
        self._draw = draw
        self._files = files or Files()
        self.history = history
        self._replicas: dict[int, Replica] = {}
        #: Those who are sent the stream, and those for whom it waits.
        self._online: list[Replica] = []
        self._behind: list[Replica] = []
        self._transfer: Transfer | None = None
        self._begin_at: asyncio.TimerHandle | None = None
        #: The database in which the stream is; -1: the next command must say it.
        self._db = -1
        #: Where the stream was behind the last effect: what comes after it tells of nothing that was written.
        self.written = 0
        self._left_at = self._pinged_at = time.monotonic()
        self._getack_due = False
        #: The last file that was written before it was sent could not be.
        self._is_disk_bad = False
        self.full = self.partial = self.refused = 0
        #: This server has no master. With one it makes no stream, and passes on its master's.
        self.leads = True
        #: The database that its master's next command is about.
        self.stream_db: Callable[[], int] = lambda: 0
        #: Whether replicas may be served: not while a master of its own is out of reach.
        self.may_serve: Callable[[], bool] = lambda: True
        #: Called when a replica has acknowledged something.
        self.on_acknowledged: Callable[[], None] = lambda: None
        for name in ("min-replicas-to-write", "min-replicas-max-lag"):
            core.config.on_change(name, self.judge)
        core.config.on_change("repl-backlog-size", self._follow_size)

    def _follow_size(self) -> None:
        self.history.size = self._core.config.integer("repl-backlog-size")

    # -- the stream ---------------------------------------------------------------------------------------------------

    def feed(self, effects: Effects) -> Effects:
        """Send the effects of commands to the replicas; the same effects encoded, for whoever wants them as well."""
        pack = hiredis.pack_command
        packed: Effects = [
            (index, argv if isinstance(argv, bytes) else pack(tuple(argv)))  # type: ignore[arg-type]
            for index, argv in effects
        ]
        out, self._db = encoded(packed, self._db)
        self.send(out[0] if len(out) == 1 else b"".join(out))
        self.written = self.history.offset
        return packed

    def send(self, block: bytes) -> None:
        """The stream goes on with these bytes, which are whole commands."""
        self.history.feed(block)
        for replica in self._online:
            replica.peer.send([block])
        if self._behind:
            self._queue(block)

    def _queue(self, block: bytes) -> None:
        now, limit = time.monotonic(), self._limit()
        for replica in list(self._behind):
            if not replica.queue(block, limit, now):
                LOG.warning("replica %s dropped: more happens than client-output-buffer-limit lets wait", replica.name)
                self._cut_off(replica)

    def _limit(self) -> OutputLimit:
        limits: dict[bytes, OutputLimit] = self._core.config.value("client-output-buffer-limit", dict)
        hard, soft, seconds = limits[b"slave"]
        return OutputLimit(hard and max(hard, self.history.size), soft and max(soft, self.history.size), seconds)

    # -- replicas come and go -----------------------------------------------------------------------------------------

    def synchronise(self, session: Session, history_id: bytes, offset: int) -> None:
        """A client wants to be a replica; see :class:`engine.core.environment.replication.Replication`."""
        session.reply_mode = "off"
        session.is_replica = True
        self._loop.call_soon(self._admit, session, history_id, offset)

    def _admit(self, session: Session, history_id: bytes, offset: int) -> None:
        peer = self._clients.connections.get(session.id)
        if peer is None or session.id in self._replicas:
            return
        said = session.as_replica or AsReplica()
        if not self.may_serve():
            session.is_replica = False
            peer.send([b"-%b\r\n" % server.NO_MASTER_LINK])
            return
        replica = Replica(peer, said, time.monotonic(), without_acks=not history_id)
        if not self.history.keeps and not said.rdb_only:
            self._clients.settle()
            self.history.release()
            self.history.keep()
            self._core.changes.record_for("replicas", True)
            self._on_feeding(True)
        self._clients.settle()
        self._replicas[session.id] = replica
        if history_id and self.history.covers(history_id, offset):
            self._continue(replica, offset)
            return
        if history_id and history_id != b"?":
            self.refused += 1
            LOG.info("replica %s cannot go on from offset %d: it gets all data", replica.name, offset)
        self.full += 1
        if not self._join(replica):
            self._begin_soon()

    def _continue(self, replica: Replica, offset: int) -> None:
        history = self.history
        self.partial += 1
        blocks = history.since(offset)
        name = b" " + history.id if b"psync2" in replica.said.capabilities else b""
        replica.fire(SyncEvent.CONTINUED)
        self._online.append(replica)
        replica.peer.send([b"+CONTINUE%b\r\n" % name, *blocks])
        LOG.info("replica %s goes on from offset %d: %d bytes", replica.name, offset, sum(map(len, blocks)))
        self.judge()

    def drop(self, session: Session) -> None:
        """A replica's connection is closed."""
        replica = self._replicas.pop(session.id, None)
        if replica is None:
            return
        replica.drop_waiting()
        for some in (self._online, self._behind):
            if replica in some:
                some.remove(replica)
        transfer = self._transfer
        if transfer is not None and replica in transfer.receivers:
            transfer.receivers.remove(replica)
            if not transfer.receivers:
                transfer.cancel()
                self._transfer = None
                self._begin_soon()
        if not self._replicas:
            self._left_at = time.monotonic()
        LOG.info("replica %s has gone", replica.name)
        self.judge()
        self.on_acknowledged()

    def _cut_off(self, replica: Replica) -> None:
        replica.peer.transport.abort()
        # It hears of nothing any more from now on, not only when the loop tells that it is closed.
        self.drop(replica.peer.session)

    def cut_off_all(self) -> None:
        """Every replica has to ask again."""
        for replica in list(self._replicas.values()):
            self._cut_off(replica)

    # -- full synchronisation -----------------------------------------------------------------------------------------

    def _form(self, replica: Replica) -> Form:
        capabilities = replica.said.capabilities
        by_mark = _BY_MARK in capabilities and (self._core.config.flag("repl-diskless-sync") or replica.said.rdb_only)
        if _OWN in capabilities and self.leads and not replica.said.rdb_only and not (self._is_disk_bad and by_mark):
            return Form.OWN_BY_LENGTH
        return Form.RDB_BY_MARK if by_mark else Form.RDB_BY_LENGTH

    def _join(self, replica: Replica) -> bool:
        """Let a replica have the file that is being written for others, if it still can."""
        transfer = self._transfer
        if transfer is None or transfer.is_sending or self._form(replica) is not transfer.form:
            return False
        first = transfer.receivers[0]
        if replica.said.without_data != first.said.without_data or first not in self._behind:
            return False
        replica.waiting, replica.waiting_size = [*first.waiting], first.waiting_size
        self._receive(replica, self.history.offset - first.waiting_size)
        transfer.receivers.append(replica)
        return True

    def _begin_soon(self) -> None:
        """Begin a transfer to those who wait; where others may come, they get a moment for it."""
        waiting = [one for one in self._replicas.values() if one.state is Sync.WAITING]
        if not waiting or self._transfer is not None:
            return
        config = self._core.config
        most = config.integer("repl-diskless-sync-max-replicas")
        at_once = any(one.said.rdb_only or self._form(one) is not Form.RDB_BY_MARK for one in waiting)
        if at_once or (most and len(waiting) >= most):
            self._begin_later(0)
        elif self._begin_at is None:
            self._begin_later(config.integer("repl-diskless-sync-delay"))

    def _begin_later(self, seconds: float) -> None:
        if self._begin_at is not None:
            self._begin_at.cancel()
        self._begin_at = self._loop.call_later(seconds, self._begin)

    def _begin(self) -> None:
        self._begin_at = None
        if self._transfer is not None:
            return
        waiting = [one for one in self._replicas.values() if one.state is Sync.WAITING]
        if not waiting:
            return
        kind = self._form(waiting[0]), waiting[0].said.without_data
        receivers = [one for one in waiting if (self._form(one), one.said.without_data) == kind]
        # What has happened so far is in the image, and in the stream of others before this place.
        self._clients.settle()
        core, config = self._core, self._core.config
        core.changes.set_time(now_us())
        databases = [] if kind[1] else core.databases
        options: dict[str, Any] = {"version": config.integer("rdb-version"), "checksum": config.flag("rdbchecksum")}
        if not self.leads:
            # The stream is in the middle of a master's: it says which database its next command is about.
            options["about"] = {b"repl-stream-db": b"%d" % self.stream_db()}
        taking = Taking(databases, config, core.changes.now)
        transfer = Transfer(kind[0], receivers, taking, options, self._loop, self._ended)
        self._transfer = transfer
        self._db = -1
        for replica in receivers:
            self._receive(replica, self.history.offset)
        names = ", ".join(one.name for one in receivers)
        LOG.info("full synchronisation (%s) of %s begins at offset %d", kind[0].name, names, self.history.offset)
        mark = b"".join(b"%x" % self._draw(16) for _ in range(_MARK_DIGITS))
        directory = Path(config.text("dir").decode()).absolute()
        transfer.start(mark, self._files, directory, self._background)

    def _receive(self, replica: Replica, offset: int) -> None:
        replica.fire(SyncEvent.IMAGE_TAKEN)
        replica.progress = time.monotonic()
        if not replica.said.rdb_only:
            self._behind.append(replica)
        if not replica.without_acks:
            replica.peer.send([b"+FULLRESYNC %b %d\r\n" % (self.history.id, offset)])

    def _ended(self, transfer: Transfer, error: OSError | None) -> None:
        self._transfer = None
        receivers = transfer.receivers
        if transfer.form is not Form.RDB_BY_MARK:
            self._is_disk_bad = error is not None
        if error is not None:
            LOG.error("full synchronisation failed, the replicas must ask again: %s", error)
            for replica in receivers[:]:
                self._cut_off(replica)
        else:
            seconds = time.monotonic() - transfer.began
            LOG.info("full synchronisation: %d bytes sent in %.1f seconds", transfer.size, seconds)
            for replica in receivers:
                self._sent(replica, transfer.form)
        self._begin_soon()

    def _sent(self, replica: Replica, form: Form) -> None:
        if replica.said.rdb_only:
            replica.fire(SyncEvent.SENT_ALONE)
        elif form is Form.RDB_BY_MARK and not replica.without_acks:
            replica.heard = time.monotonic()
            replica.fire(SyncEvent.MARKED)
        else:
            replica.fire(SyncEvent.SENT)
            self._go_online(replica)

    def _go_online(self, replica: Replica) -> None:
        self._behind.remove(replica)
        self._online.append(replica)
        replica.heard = time.monotonic()
        replica.release()
        LOG.info("replica %s is online", replica.name)
        self.judge()

    # -- acknowledgements ---------------------------------------------------------------------------------------------

    def acknowledge(self, session: Session, offset: int, on_disk: int) -> None:
        """A replica has done the stream up to ``offset``, and has it on its disk up to ``on_disk`` (-1: not said)."""
        replica = self._replicas.get(session.id)
        if replica is None:
            return
        replica.heard = time.monotonic()
        moved = offset > replica.offset or on_disk > replica.on_disk
        replica.offset = max(replica.offset, offset)
        replica.on_disk = max(replica.on_disk, on_disk)
        if replica.state is Sync.LOADING:
            replica.fire(SyncEvent.ACKNOWLEDGED)
            self._loop.call_soon(self._now_online, replica)
        elif self._core.admission.refusal(Refusal.REPLICAS):
            self.judge()
        if moved:
            self.on_acknowledged()

    def _now_online(self, replica: Replica) -> None:
        if replica in self._behind:
            self._go_online(replica)

    def acknowledged(self, offset: int, *, on_disk: bool) -> int:
        """How many replicas have the stream up to an offset."""
        if on_disk:
            return sum(one.on_disk >= offset for one in self._online)
        return sum(one.offset >= offset for one in self._online)

    def ask_soon(self) -> None:
        """Ask all replicas how far they are, once for all who want to know it in this event-loop iteration."""
        if not self._getack_due and self._online:
            self._getack_due = True
            self._loop.call_soon(self._ask)

    def _ask(self) -> None:
        self._getack_due = False
        if self._online and self.leads:
            self._clients.settle()
            self.send(_GETACK)

    def judge(self) -> None:
        """Decide whether there are replicas enough for commands that write (min-replicas-to-write)."""
        config, admission = self._core.config, self._core.admission
        wanted, lag = config.integer("min-replicas-to-write"), config.integer("min-replicas-max-lag")
        error = server.TOO_FEW_REPLICAS if self.leads and wanted and lag and self.good < wanted else b""
        if error != admission.refusal(Refusal.REPLICAS):
            admission.refuse(Refusal.REPLICAS, error)

    @property
    def good(self) -> int:
        """Replicas that have acknowledged something within min-replicas-max-lag."""
        now, lag = time.monotonic(), self._core.config.integer("min-replicas-max-lag")
        return sum(one.lag(now) <= lag for one in self._online)

    # -- time ---------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Once a second."""
        now, config = time.monotonic(), self._core.config
        timeout = config.integer("repl-timeout")
        for replica in list(self._replicas.values()):
            state = replica.state
            if state is Sync.WAITING or (state is Sync.RECEIVING and not self._is_sending()):
                replica.peer.send([b"\n"])
                replica.progress = now
            elif state is Sync.RECEIVING:
                if now - replica.progress > timeout:
                    LOG.warning("replica %s dropped: it takes nothing of the file", replica.name)
                    self._cut_off(replica)
            elif state is not Sync.SERVED and not replica.without_acks and now - replica.heard > timeout:
                LOG.warning("replica %s dropped: it has said nothing for %d seconds", replica.name, timeout)
                self._cut_off(replica)
        self.judge()
        if not self.leads:
            return
        if now - self._pinged_at >= config.integer("repl-ping-replica-period"):
            self._pinged_at = now
            if self._replicas and not self._core.pause.until:
                self._clients.settle()
                self.send(_PING)
        ttl = config.integer("repl-backlog-ttl")
        if self.history.keeps and not self._replicas and ttl and now - self._left_at > ttl:
            self.forget()

    def _is_sending(self) -> bool:
        return self._transfer is not None and self._transfer.is_sending

    # -- roles --------------------------------------------------------------------------------------------------------

    def begin_following(self) -> None:
        """The server has a master from now on: what happens here is no part of the stream."""
        self._clients.settle()
        self.leads = False
        self.cut_off_all()
        self._core.changes.record_for("replicas", False)
        self._on_feeding(False)
        self.judge()

    def begin_leading(self) -> None:
        """The server has no master any more: it makes the stream, if there is anybody who might go on with it."""
        self.leads = True
        self.cut_off_all()
        self._db = -1
        self.written = self.history.offset
        self._left_at = self._pinged_at = time.monotonic()
        if self.history.keeps:
            self._core.changes.record_for("replicas", True)
            self._on_feeding(True)
        self.judge()

    def restart(self) -> None:
        """The data are not those that the stream has made any more: everybody gets them anew."""
        self.history.renew()
        self.cut_off_all()

    def forget(self) -> None:
        """Nobody follows any more: keep no backlog, and have no effects recorded."""
        self._clients.settle()
        self._core.changes.record_for("replicas", False)
        self._on_feeding(False)
        self.history.release()
        LOG.info("the replication backlog is freed: there were no replicas for repl-backlog-ttl")

    def close(self) -> None:
        """The end."""
        if self._begin_at is not None:
            self._begin_at.cancel()
        if self._transfer is not None:
            self._transfer.cancel()

    # -- what is told -------------------------------------------------------------------------------------------------

    def role(self) -> list[Any]:
        """The reply of ROLE."""
        known = [one for one in self._online if not one.said.rdb_only]
        told = [[host.encode(), b"%d" % port, b"%d" % one.offset] for one in known for host, port in [one.address]]
        return [b"master", self.history.offset, told]

    def info(self) -> list[tuple[str, Any]]:
        """The lines of INFO replication that tell of replicas, and of the history."""
        now, history = time.monotonic(), self.history
        replicas = [one for one in self._replicas.values() if one.state is not Sync.SERVED]
        lines: list[tuple[str, Any]] = [("connected_slaves", len(replicas))]
        if self._core.config.integer("min-replicas-to-write"):
            lines.append(("min_slaves_good_slaves", self.good))
        lines += [(f"slave{number}", one.described(now)) for number, one in enumerate(replicas)]
        return [
            *lines,
            ("master_failover_state", "no-failover"),
            ("master_replid", history.id.decode()),
            ("master_replid2", history.second_id.decode()),
            ("master_repl_offset", history.offset),
            ("second_repl_offset", history.second_offset),
            ("repl_backlog_active", int(history.keeps)),
            ("repl_backlog_size", history.size),
            ("repl_backlog_first_byte_offset", history.first if history.keeps else 0),
            ("repl_backlog_histlen", history.held),
        ]
