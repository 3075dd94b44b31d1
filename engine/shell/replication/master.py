"""Master role of a server: its replicas, the stream sent to them, their acknowledgements.

Effects become the stream: encoded once, counted by the history, sent to each online replica, and queued for replicas
that receive a file first (`engine.shell.replication.replicas`). Replicas acknowledge the offsets that they have applied
and synced. Clients that wait for acknowledgements (WAIT) are woken by each of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import hiredis

from engine.core.admission import Refusal
from engine.core.clients.session import AsReplica, Session
from engine.core.dispatch import Core
from engine.core.keyspace.changes import Effects
from engine.settings.kinds import OutputLimit
from engine.shell.clock import now_us
from engine.shell.durability.background import Background
from engine.shell.durability.files import Files
from engine.shell.durability.log import encode_effects
from engine.shell.durability.position import Position
from engine.shell.observation.log_lines import LOG
from engine.shell.replication.history import History
from engine.shell.replication.replicas import Clients, FullSyncs, Replica, Sync

_PING, _GETACK = b"*1\r\n$4\r\nPING\r\n", b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n"
#: Blocks with a smaller total size in bytes are joined before they are sent.
_JOINED = 64 * 1024
#: Seconds after which replicas that were behind are asked for their offsets again.
_ASK_AGAIN = 0.1


class Master:
    """Master role of one server. ``on_feeding`` is called with True when effects are needed from now on, and with False
    when they are no longer needed.
    """

    # A single class, because offset, backlog and replicas change together with each effect that is sent.

    def __init__(
        self,
        core: Core,
        clients: Clients,
        history: History,
        loop: asyncio.AbstractEventLoop,
        background: Background,
        on_feeding: Callable[[bool], None],
        files: Files | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core = core
        self._clock = clock
        self._clients = clients
        self._loop = loop
        #: Blocks added to the stream in this event-loop iteration.
        self._outgoing: list[bytes] = []
        self._is_release_due = False
        self._on_feeding = on_feeding
        self.history = history
        #: Replicas by session ID, in any state.
        self.replicas: dict[int, Replica] = {}
        #: Replicas that receive the stream.
        self.online: list[Replica] = []
        #: Sender of files to replicas.
        self.full_syncs = FullSyncs(
            core, clients, history, loop, background, files or Files(), clock, self._go_online, self._cut_off
        )
        #: Offset after the last effect: later bytes of the stream contain no writes.
        self.written = 0
        #: Offset up to which a replica has acknowledged the stream, or this server has received it from its master.
        self.confirmed = 0
        self._left_at = self._pinged_at = clock()
        #: Clients that wait for acknowledgements.
        self._waiting: dict[Session, None] = {}
        self._getack_due = self._wake_due = self._ask_again_due = False
        self.full = self.partial = self.refused = 0
        #: Whether this server has no master. A server with a master passes on the master's stream.
        self.leads = True
        #: Whether replicas may be served; false while this server's own master is unreachable.
        self.may_serve: Callable[[], bool] = lambda: True
        #: Stage of a failover, as INFO shows it.
        self.failover_state: Callable[[], str] = lambda: "no-failover"
        #: Called when a replica has acknowledged something, or has disconnected.
        self.on_acknowledged: Callable[[], None] = lambda: None
        for name in ("min-replicas-to-write", "min-replicas-max-lag"):
            core.config.on_change(name, self.judge)
        core.config.on_change("repl-backlog-size", self._follow_size)

    def _follow_size(self) -> None:
        self.history.size = self._core.config.integer("repl-backlog-size")

    # -- the stream ---------------------------------------------------------------------------------------------------

    def feed(self, effects: Effects) -> Effects:
        """Send the effects of commands to the replicas; return the encoded effects, so that the log can reuse them."""
        pack = hiredis.pack_command
        packed: Effects = [
            (index, argv if isinstance(argv, bytes) else pack(tuple(argv)))  # type: ignore[arg-type]
            for index, argv in effects
        ]
        out, self.history.db = encode_effects(packed, self.history.db)
        self.send(out[0] if len(out) == 1 else b"".join(out))
        self.written = self.history.offset
        return packed

    @property
    def position(self) -> Position | None:
        """Position of a master's data in its history; None if no other server can know the history."""
        history = self.history
        return Position(history.id, history.offset, max(self.history.db, 0)) if history.keeps else None

    def send(self, block: bytes) -> None:
        """Append bytes, which must be complete commands, to the stream."""
        self.history.feed(block)
        if self.online:
            self._outgoing.append(block)
            if not self._is_release_due:
                self._is_release_due = True
                self._loop.call_soon(self._release_due)
        if self.full_syncs.behind:
            self._queue(block)

    def _release_due(self) -> None:
        self._is_release_due = False
        self._release()

    def _release(self) -> None:
        """Send the collected stream to the online replicas; call this before another replica goes online.

        Commands of several clients in one event-loop iteration are collected and sent together, after their replies.
        """
        blocks, self._outgoing = self._outgoing, []
        if not blocks:
            return
        parts: list[bytes | memoryview] = [*blocks]
        if len(blocks) > 1 and sum(map(len, blocks)) < _JOINED:
            parts = [b"".join(blocks)]
        for replica in self.online:
            replica.peer.send(parts)

    def _queue(self, block: bytes) -> None:
        now, limit = self._clock(), self._limit()
        for replica in list(self.full_syncs.behind):
            if not replica.queue(block, limit, now):
                replica.peer.give_up(replica.waiting_size)
                self.drop(replica.peer.session)

    def _limit(self) -> OutputLimit:
        limits: dict[bytes, OutputLimit] = self._core.config.value("client-output-buffer-limit", dict)
        hard, soft, seconds = limits[b"slave"]
        return OutputLimit(hard and max(hard, self.history.size), soft and max(soft, self.history.size), seconds)

    # -- replicas -----------------------------------------------------------------------------------------------------

    def synchronise(self, session: Session, history_id: bytes, offset: int) -> None:
        """Make a client a replica; see `engine.core.environment.replication.Replication`."""
        session.reply_mode = "off"
        session.is_replica = True
        self._loop.call_soon(self._admit, session, history_id, offset)

    def _admit(self, session: Session, history_id: bytes, offset: int) -> None:
        peer = self._clients.connections.get(session.id)
        if peer is None or session.id in self.replicas:
            return
        announced = session.as_replica or AsReplica()
        if not self.may_serve():
            session.is_replica = False
            peer.send([b"-NOMASTERLINK Can't SYNC while not connected with my master\r\n"])
            return
        replica = Replica(peer, announced, self._clock(), without_acks=not history_id)
        if not self.history.keeps and not announced.rdb_only:
            self._clients.settle()
            self.history.release()
            self.history.keep()
            self._core.changes.record_for("replicas", True)
            self._on_feeding(True)
        self._clients.settle()
        self.replicas[session.id] = replica
        if history_id and self.history.covers(history_id, offset):
            self._continue(replica, offset)
            return
        if history_id and history_id != b"?":
            self.refused += 1
            LOG.info("replica %s cannot continue from offset %d, sending all data", replica.name, offset)
        self.full += 1
        self.full_syncs.add(replica)

    def _continue(self, replica: Replica, offset: int) -> None:
        history = self.history
        self.partial += 1
        replica.offset = offset - 1
        blocks = history.since(offset)
        name = b" " + history.id if b"psync2" in replica.announced.capabilities else b""
        replica.state = Sync.ONLINE
        replica.last_sign = self._clock()
        self._release()
        self.online.append(replica)
        replica.peer.send([b"+CONTINUE%b\r\n" % name, *blocks])
        LOG.info("replica %s continues from offset %d: %d bytes", replica.name, offset, sum(map(len, blocks)))
        self.judge()

    def drop(self, session: Session) -> None:
        """Remove a replica whose connection is closed."""
        replica = self.replicas.pop(session.id, None)
        if replica is None:
            return
        replica.take_queue()
        if replica in self.online:
            self.online.remove(replica)
        self.full_syncs.drop(replica)
        if not self.replicas:
            self._left_at = self._clock()
        LOG.info("replica %s disconnected", replica.name)
        self.judge()
        self._tell_acknowledged()

    def _cut_off(self, replica: Replica) -> None:
        """Close a replica's connection, so that it must synchronise again."""
        replica.peer.transport.abort()
        # Remove the replica now: the event loop reports the close later.
        self.drop(replica.peer.session)

    def cut_off_all(self) -> None:
        """Disconnect all replicas, so that they must synchronise again."""
        for replica in list(self.replicas.values()):
            self._cut_off(replica)

    def _go_online(self, replica: Replica) -> None:
        """Start sending the stream, queued bytes first, to a replica that has its complete file."""
        self._release()
        self.online.append(replica)
        replica.last_ack = self._clock()
        if waiting := replica.take_queue():
            replica.peer.send(waiting)
        LOG.info("replica %s is online", replica.name)
        self.judge()

    # -- acknowledgements ---------------------------------------------------------------------------------------------

    def acknowledge(self, session: Session, offset: int) -> None:
        """Record how far a replica has applied the stream."""
        replica = self.replicas.get(session.id)
        if replica is None:
            return
        replica.last_ack = self._clock()
        moved = offset > replica.offset
        replica.offset = max(replica.offset, offset)
        self.confirmed = max(self.confirmed, replica.offset)
        if self._core.admission.refusal(Refusal.REPLICAS):
            self.judge()
        if moved:
            self._tell_acknowledged()

    def _tell_acknowledged(self) -> None:
        """Wake what waits for acknowledgements soon: a command may be running."""
        self.on_acknowledged()
        if self._waiting and not self._wake_due:
            self._wake_due = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._wake_due = False
        sessions, self._waiting = self._waiting, {}
        for session in sessions:
            self._core.wake(session, now_us())
        self._clients.settle()

    def wake_when_acknowledged(self, session: Session, *, again: bool) -> None:
        """Wake the blocked session once; see `engine.core.environment.replication.Replication`."""
        self._waiting[session] = None
        if not again:
            self.request_acks_soon()
        elif not self._ask_again_due:
            # Each reply wakes all waiting clients, so asking again immediately would never end.
            self._ask_again_due = True
            self._loop.call_later(_ASK_AGAIN, self._ask_again)

    def _ask_again(self) -> None:
        self._ask_again_due = False
        if self._waiting:
            self.request_acks_soon()

    def acknowledged(self, offset: int) -> int:
        """Return the number of replicas that have applied the stream up to ``offset``."""
        return sum(replica.offset >= offset for replica in self.online)

    def request_acks_soon(self) -> None:
        """Request the offsets of all replicas, at most once per event-loop iteration."""
        if not self._getack_due and self.online:
            self._getack_due = True
            self._loop.call_soon(self._ask)

    def _ask(self) -> None:
        self._getack_due = False
        if self.online and self.leads:
            self._clients.settle()
            self.send(_GETACK)

    def judge(self) -> None:
        """Decide whether there are enough replicas for write commands (min-replicas-to-write)."""
        config, admission = self._core.config, self._core.admission
        wanted, lag = config.integer("min-replicas-to-write"), config.integer("min-replicas-max-lag")
        error = (
            b"NOREPLICAS Not enough good replicas to write."
            if self.leads and wanted and lag and self.good < wanted
            else b""
        )
        if error != admission.refusal(Refusal.REPLICAS):
            admission.refuse(Refusal.REPLICAS, error)

    @property
    def good(self) -> int:
        """Number of replicas that have acknowledged something within min-replicas-max-lag."""
        now, lag = self._clock(), self._core.config.integer("min-replicas-max-lag")
        return sum(replica.offset >= 0 and replica.lag(now) <= lag for replica in self.online)

    # -- time ---------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Run the periodic work, once per second."""
        now, config = self._clock(), self._core.config
        timeout = config.integer("repl-timeout")
        for replica in list(self.replicas.values()):
            state = replica.state
            if state is Sync.WAITING or (state is Sync.RECEIVING and not self.full_syncs.is_sending):
                replica.peer.send([b"\n"])
                replica.last_sign = now
            elif state is Sync.ONLINE and (replica.without_acks or replica.has_sent_more()):
                replica.last_sign = now
            elif state is not Sync.SERVED and now - replica.last_sign > timeout:
                LOG.warning("replica %s disconnected: no sign of life for %d seconds", replica.name, timeout)
                self._cut_off(replica)
        self.judge()
        if not self.leads:
            return
        if now - self._pinged_at >= config.integer("repl-ping-replica-period"):
            self._pinged_at = now
            if self.replicas and not self._core.pause.until:
                self._clients.settle()
                self.send(_PING)
        ttl = config.integer("repl-backlog-ttl")
        if self.history.keeps and not self.replicas and ttl and now - self._left_at > ttl:
            self.release_backlog()

    # -- roles --------------------------------------------------------------------------------------------------------

    def start_following(self, *, keep_replicas: bool = False) -> None:
        """Become a replica: effects of this server are no longer part of the stream."""
        self._clients.settle()
        self.leads = False
        if not keep_replicas:
            self.cut_off_all()
        self._core.changes.record_for("replicas", False)
        self._on_feeding(False)
        self.judge()

    def start_leading(self) -> None:
        """Become a master, and disconnect all replicas. If there is a backlog, effects extend the stream again."""
        self.leads = True
        self.cut_off_all()
        self.history.db = -1
        self.written = self.confirmed = self.history.offset
        self._left_at = self._pinged_at = self._clock()
        if self.history.keeps:
            self._core.changes.record_for("replicas", True)
            self._on_feeding(True)
        self.judge()

    def restart(self) -> None:
        """Start a new history and disconnect all replicas: the data no longer results from the stream."""
        self.history.renew()
        self.cut_off_all()

    def release_backlog(self) -> None:
        """Drop the backlog and stop recording effects, because no replicas are left."""
        self._clients.settle()
        self._core.changes.record_for("replicas", False)
        self._on_feeding(False)
        self.history.release()
        LOG.info("freed the replication backlog: no replicas for repl-backlog-ttl")

    def close(self) -> None:
        """Send the rest of the stream, and stop: the process is exiting."""
        self._release()
        self.full_syncs.close()

    # -- facts --------------------------------------------------------------------------------------------------------

    def role(self) -> list[Any]:
        """Return the reply of ROLE."""
        rows = ((*replica.address, max(replica.offset, 0)) for replica in self.online)
        return [b"master", self.history.offset, [[host.encode(), b"%d" % port, b"%d" % at] for host, port, at in rows]]

    def info(self) -> list[tuple[str, Any]]:
        """Return INFO replication's lines about replicas and the history."""
        history = self.history
        good: list[tuple[str, Any]] = []
        if self._core.config.integer("min-replicas-to-write"):
            good.append(("min_slaves_good_slaves", self.good))
        now = self._clock()
        known = [replica for replica in self.replicas.values() if replica.state is not Sync.SERVED]
        return [
            ("connected_slaves", len(known)),
            *good,
            *((f"slave{number}", replica.described(now)) for number, replica in enumerate(known)),
            ("master_failover_state", self.failover_state()),
            ("master_replid", history.id.decode()),
            ("master_replid2", history.second_id.decode()),
            ("master_repl_offset", history.offset),
            ("second_repl_offset", history.second_offset),
            ("repl_backlog_active", int(history.keeps)),
            ("repl_backlog_size", history.size),
            ("repl_backlog_first_byte_offset", history.first if history.keeps else 0),
            ("repl_backlog_histlen", history.held),
        ]
