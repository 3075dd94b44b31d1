"""Replica role of a server: it follows a master, from REPLICAOF host port to REPLICAOF NO ONE.

It owns the link and its states (`engine.shell.replication.replica.link_states`): the handshake
(`engine.shell.replication.replica.handshake`), a full synchronisation (`engine.shell.replication.replica.full_sync`),
then the master's stream (`engine.shell.replication.replica.applier`). All work is done in small steps. In between,
clients are served from the old data, or get an error, depending on ``replica-serve-stale-data`` and
``repl-diskless-load``.

A broken link is retried after a growing pause. If the master sends a command or type that the engine does not support,
the server stops following it until the next REPLICAOF, and INFO shows the reason. The module is long because it
handles all states of the link.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from engine.core.admission import Refusal
from engine.core.dispatch import Core
from engine.core.keyspace.changes import NEVER
from engine.core.protocol.replies import OK, CommandError, Reply, Simple
from engine.settings.kinds import ConfigError
from engine.shell.durability.position import Position
from engine.shell.observation.log_lines import LOG
from engine.shell.replication.history import History
from engine.shell.replication.replica.applier import Applier
from engine.shell.replication.replica.collaborators import Downstream, Handover, ReplicaHost
from engine.shell.replication.replica.full_sync import FullSync, log_discarded_data
from engine.shell.replication.replica.handshake import (
    LINE_LIMIT,
    Continue,
    Full,
    Handshake,
    HandshakeError,
    Introduction,
)
from engine.shell.replication.replica.link import MasterLink
from engine.shell.replication.replica.link_states import Link, LinkEvent, link
from engine.shell.replication.replica.log_offset import LogOffset
from engine.shell.replication.replica.role_report import RoleReport
from engine.shell.replication.replica.transfer import TransferError
from engine.shell.tls import client_context
from engine.text import messages

#: Seconds between two rounds of periodic work: acknowledgements, keepalives, timeouts.
_PERIOD = 1.0
#: First pause in seconds before another attempt to reach the master. The pause doubles with each failed attempt.
_SHORTEST_PAUSE = 0.1
#: Maximum pause in seconds before another attempt to reach the master.
_LONGEST_PAUSE = 5.0
#: First pause in seconds after a failed full synchronisation. It is longer than `_SHORTEST_PAUSE`, because a full
#: synchronisation is expensive for the master.
_SHORTEST_COSTLY_PAUSE = 1.0
#: Maximum pause in seconds after failed full synchronisations.
_LONGEST_COSTLY_PAUSE = 60.0
#: Maximum number of the master's bytes waiting to be processed; above that, reading pauses.
_MOST_WAITING = 8 << 20
#: Version that this replica announces to its master. A Valkey master chooses the format of its RDB file by this
#: version, and sends no file to a replica below version 9 if hash fields have deadlines. Redis uses capabilities.
_LIKE_VALKEY = b"9.1.0"


class ReplicaRole:
    """Replica role of one server. ``history`` is shared with the master role, which serves its own replicas."""

    # A single class, because the attributes are the state of one link (`link_states`), and change together at its
    # transitions.

    def __init__(
        self,
        core: Core,
        process: ReplicaHost,
        downstream: Downstream,
        history: History,
        port: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core = core
        self._process = process
        self._downstream = downstream
        self._history = history
        self._own_port = port
        self._clock = clock
        self._machine = link()
        self._host, self._port = b"", 0
        self._link: MasterLink | None = None
        self._handshake: Handshake | None = None
        #: The failover in which this server, the former master, hands over to the server that it follows.
        self._handover: Handover | None = None
        self._lines = b""
        #: The full synchronisation in progress, if any.
        self._sync: FullSync | None = None
        #: Applies the master's stream; None if the stream is not being received.
        self._applying: Applier | None = None
        #: Database selected for the master's next command, while there is no link.
        self._db = 0
        #: Bytes of the stream that arrived while the data was being loaded.
        self._early: list[bytes] = []
        #: Whether the data matches the history up to its offset, so that the rest may be requested.
        self._has_history = False
        #: How many bytes at the end of the history this server wrote as a master and no replica has acknowledged.
        self._unconfirmed = 0
        self._timer: asyncio.TimerHandle | None = None
        self._retry: asyncio.Handle | None = None
        self._pause, self._costly_pause = _SHORTEST_PAUSE, _SHORTEST_COSTLY_PAUSE
        #: Reason why the link is down; empty if unknown.
        self.trouble = ""
        #: Time when the link was lost; -1 if the link was never up.
        self._down_since = -1.0
        self._logged = LogOffset()
        config = core.config
        for name in ("replica-read-only", "replica-serve-stale-data", "replica-ignore-maxmemory"):
            config.on_change(name, self._follow_directives)

    # -- roles --------------------------------------------------------------------------------------------------------

    @property
    def position(self) -> Position | None:
        """Position of a replica's data in its master's history; None if the data does not match that history."""
        is_cleared = self._machine.state is Link.LOADING and not self._keeps_old_data
        if not self._has_history or is_cleared:
            return None
        return Position(self._history.id, self._history.offset, self.stream_db)

    def resume(self, db: int) -> None:
        """Set the database of the master's next command, as loaded from disk together with the position."""
        self._db = db

    @property
    def is_on(self) -> bool:
        """Whether this server is a replica."""
        return self._machine.state is not Link.OFF

    @property
    def is_up(self) -> bool:
        """Whether the stream is being applied, so that other servers may follow this one."""
        return self._machine.state is Link.FOLLOWING

    @property
    def is_synchronising(self) -> bool:
        """Whether a full synchronisation is in progress: the current data is not the master's."""
        return self._machine.state in (Link.TRANSFER, Link.LOADING)

    @property
    def stream_db(self) -> int:
        """Database selected for the master's next command."""
        return self._db if self._applying is None else self._applying.db

    @property
    def _keeps_old_data(self) -> bool:
        """Whether the old data is served until the new data is complete (repl-diskless-load swapdb)."""
        return self._sync is not None and self._sync.keeps_old_data

    def follow(self, host: bytes, port: int, handover: Handover | None = None) -> Reply:
        """Become a replica of another server. The link is opened after the current command.

        ``handover``: failover in which this server, until now the master of the other server, exchanges roles with it.
        """
        if self.is_on and self._machine.state is not Link.REFUSED and (host, port) == (self._host, self._port):
            return Simple(messages.ALREADY_FOLLOWS)
        LOG.info("following the master %s:%d", host.decode("utf-8", "backslashreplace"), port)
        was_on = self.is_on
        self._close_link()
        self._machine.fire(LinkEvent.FOLLOW)
        self._host, self._port, self._handover = host, port, handover
        self._core.config.note("replicaof", (host, b"%d" % port))
        if not was_on:
            # A master's history is valid only if a backlog was kept.
            self._has_history = self._history.keeps
            self._become_replica()
            self._unconfirmed = max(self._history.offset - self._downstream.confirmed, 0)
        self._down_since, self.trouble = -1.0, ""
        self._pause, self._costly_pause = _SHORTEST_PAUSE, _SHORTEST_COSTLY_PAUSE
        self._follow_directives()
        self._retry = asyncio.get_running_loop().call_soon(self._connect)
        return OK

    def _become_replica(self) -> None:
        core = self._core
        core.changes.hold_expiry("master", NEVER)
        self._downstream.start_following(keep_replicas=self._handover is not None)
        waiting = core.sessions.blocked()
        for session in waiting:
            core.sessions.end_wait(session, CommandError(messages.ROLE_CHANGED))

        def finish() -> None:
            for session in waiting:
                self._process.finish(session)

        core.host.after_reply(finish)
        self._tick()

    def lead(self) -> None:
        """Become a master and keep the data. The history continues under a new ID, or starts again if the data does not
        match it.
        """
        if not self.is_on:
            return
        LOG.info("this server becomes a master; its history has %d bytes so far", self._history.offset)
        self._close_link()
        self._handover = None
        self._machine.fire(LinkEvent.LEAD)
        self._core.config.note("replicaof", ())
        if self._timer is not None:
            self._timer.cancel()
        if self._has_history:
            self._history.lead()
        else:
            self._history.renew()
        self._core.changes.hold_expiry("master", 0)
        self._follow_directives()
        self._downstream.start_leading()

    def stop(self) -> None:
        """Close the link: the process is exiting."""
        self._close_link()
        if self._timer is not None:
            self._timer.cancel()

    def _follow_directives(self) -> None:
        config, admission, state = self._core.config, self._core.admission, self._machine.state
        read_only = state is not Link.OFF and config.flag("replica-read-only")
        stale = state not in (Link.OFF, Link.FOLLOWING) and not config.flag("replica-serve-stale-data")
        loading = state is Link.LOADING
        serves_old_data = loading and self._keeps_old_data
        admission.memory_counts = state is Link.OFF or not config.flag("replica-ignore-maxmemory")
        admission.refuse(Refusal.READONLY, messages.READONLY if read_only else b"")
        admission.refuse(Refusal.STALE, messages.MASTER_DOWN if stale else b"")
        admission.refuse(Refusal.LOADING, messages.LOADING if loading and not serves_old_data else b"")
        admission.refuse(Refusal.ASYNC_LOADING, messages.LOADING if serves_old_data else b"")

    # -- the link -----------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        self._retry = None
        self._machine.fire(LinkEvent.DUE)
        config = self._core.config
        self._link = MasterLink(self, self._clock)
        try:
            context = client_context(config) if config.flag("tls-replication") else None
        except ConfigError as error:
            self.lost(str(error))
            return
        source = config.text("bind-source-addr").decode()
        self._link.open(self._host.decode("utf-8", "surrogateescape"), self._port, context, source)

    def connected(self) -> None:
        """Start the handshake: the link is open."""
        self._machine.fire(LinkEvent.CONNECTED)
        config = self._core.config
        who = Introduction(
            config.text("masteruser"),
            config.text("masterauth"),
            config.integer("replica-announce-port") or self._own_port,
            config.text("replica-announce-ip"),
            version=_LIKE_VALKEY,
        )
        asked = (self._history.id, self._history.offset + 1) if self._has_history else None
        self._handshake = Handshake(who, asked, hands_over=self._handover is not None)
        self._lines = b""
        self._send(self._handshake.start())

    def received(self, data: bytes) -> None:
        """Process bytes of the master."""
        state = self._machine.state
        if state is Link.FOLLOWING and self._applying is not None:
            self._applying.feed(data)
        elif state is Link.HANDSHAKE:
            self._continue_handshake(data)
        elif state is Link.TRANSFER and self._sync is not None:
            rest = self._sync.feed(data)
            if rest:
                self.received(rest)
        elif state is Link.LOADING:
            self._early.append(data)
            self.limit_reading()

    def lost(self, why: str, *, costly: bool = False) -> None:
        """Handle a broken link, a silent master, or unusable bytes: try again later."""
        state = self._machine.state
        if state is Link.LOADING and not costly:
            # Continue loading: all data has arrived. The rest of the stream is requested after the data was loaded.
            return
        where = f"{self._host.decode('utf-8', 'backslashreplace')}:{self._port}"
        LOG.warning("the link to the master %s is down (%s): %s", where, state.name.lower(), why)
        if state is Link.FOLLOWING:
            self._down_since = self._clock()
            self._pause = _SHORTEST_PAUSE
        self.trouble = why
        is_rejected = self._handshake is not None and self._handshake.has_asked
        pause = self._costly_pause if costly or state is Link.TRANSFER else self._pause
        self._close_link()
        self._machine.fire(LinkEvent.LOST)
        self._follow_directives()
        if costly or state is Link.TRANSFER:
            self._costly_pause = min(2 * pause, _LONGEST_COSTLY_PAUSE)
        else:
            self._pause = min(2 * pause, _LONGEST_PAUSE)
        self._retry = asyncio.get_running_loop().call_later(pause, self._connect)
        if self._handover is not None and is_rejected:
            self._handover.rejected(why)

    def refuse(self, why: str) -> None:
        """Stop following the master, because it sent something that is not supported."""
        LOG.error(
            "stopped following the master %s:%d: %s; call REPLICAOF to try again",
            self._host.decode("utf-8", "backslashreplace"),
            self._port,
            why,
        )
        if self._machine.state is Link.FOLLOWING:
            self._down_since = self._clock()
        self.trouble = why
        self._close_link()
        self._has_history = False
        self._machine.fire(LinkEvent.UNUSABLE)
        self._follow_directives()

    def _close_link(self) -> None:
        """Close everything that is open; the caller changes the state."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._link is not None:
            self._link.drop()
            self._link = None
        self._handshake, self._early = None, []
        if self._applying is not None:
            self._db = self._applying.db
            self._applying.close()
            self._applying = None
        if self._sync is not None:
            if self._sync.close():
                # The old data was freed, so the rest of its history is of no use.
                self._has_history = False
            self._sync = None

    def _send(self, data: bytes) -> None:
        if self._link is not None:
            self._link.send(data)

    def limit_reading(self) -> None:
        """Pause reading from the master while too many bytes are waiting."""
        if self._link is not None:
            waiting = self._applying.intake.waiting if self._applying is not None else sum(map(len, self._early))
            self._link.pause(waiting > _MOST_WAITING)

    # -- handshake ----------------------------------------------------------------------------------------------------

    def _continue_handshake(self, data: bytes) -> None:
        assert self._handshake is not None
        self._lines += data
        while self._handshake.outcome is None:
            line, end, rest = self._lines.partition(b"\n")
            if not end:
                if len(self._lines) > LINE_LIMIT:
                    self.lost("the reply of the master is too long")
                return
            self._lines = rest
            try:
                self._send(self._handshake.line(line.rstrip(b"\r")))
            except HandshakeError as error:
                self.lost(str(error))
                return
        outcome, rest, self._lines = self._handshake.outcome, self._lines, b""
        self._handshake = None
        handover, self._handover = self._handover, None
        if isinstance(outcome, Full):
            self._start_full_sync(outcome)
        else:
            self._go_on(outcome)
        if handover is not None:
            handover.accepted()
        if rest:
            self.received(rest)

    def _go_on(self, outcome: Continue) -> None:
        """Continue with the rest of the master's history."""
        self._machine.fire(LinkEvent.CONTINUE)
        self._unconfirmed = 0
        LOG.info("the master continues from offset %d", self._history.offset)
        if outcome.id and outcome.id != self._history.id:
            self._history.rename(outcome.id)
            self._downstream.cut_off_all()
        self._start_applier()

    # -- full synchronisation -----------------------------------------------------------------------------------------

    def _start_full_sync(self, full: Full) -> None:
        self._machine.fire(LinkEvent.FULL)
        LOG.info(
            "full synchronisation: the master sends all data at offset %d of its history %s",
            full.offset,
            full.id.decode(),
        )
        try:
            self._sync = FullSync(self._core, self._clock, full, self)
        except TransferError as error:
            self.lost(str(error), costly=True)

    def data_arrived(self) -> None:
        """Start loading: all bytes have arrived."""
        self._machine.fire(LinkEvent.RECEIVED)
        self._follow_directives()

    def old_data_ends(self) -> None:
        """Log what is lost with the old data."""
        assert self._sync is not None
        history = self._history if self._has_history else None
        log_discarded_data(self._core, self._sync.full, history, self._unconfirmed)

    def data_loaded(self) -> None:
        """Put the loaded data in place, and start applying the stream."""
        sync = self._sync
        assert sync is not None
        self._process.settle()
        summary = sync.put_in_place()
        self._sync = None
        self._history.adopt(sync.full.id, sync.full.offset)
        self._has_history, self._unconfirmed = True, 0
        self._logged.reset()
        selected = summary.about.get(b"repl-stream-db", b"")
        self._db = int(selected) if selected.isdigit() and int(selected) < len(self._core.databases) else 0
        self._machine.fire(LinkEvent.LOADED)
        self._costly_pause = _SHORTEST_COSTLY_PAUSE
        LOG.info("loaded %d keys of the master", summary.keys)
        self._downstream.cut_off_all()
        self._start_applier()
        early, self._early = self._early, []
        for data in early:
            self.received(data)
        if self._link is not None and self._link.is_closed:
            self.lost("the link was lost while the data was loaded")

    # -- the stream ---------------------------------------------------------------------------------------------------

    def _start_applier(self) -> None:
        self._history.keep()
        self._pause = _SHORTEST_PAUSE
        self.trouble = ""
        address = self._link.address if self._link is not None else (b"", b"")
        self._applying = Applier(
            self._core, self._process, self._downstream, self._history, self._logged, self, self._db, address
        )
        self._follow_directives()
        self._process.settle()
        self.tell_master()

    def tell_master(self) -> None:
        """Send an acknowledgement of the current offset."""
        if self.is_up and self._applying is not None:
            self._send(self._applying.acknowledgement())

    # -- time ---------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_PERIOD, self._tick)
        state = self._machine.state
        if state is Link.FOLLOWING:
            self.tell_master()
            if self._applying is not None and self._applying.is_closed_by_client:
                self.lost("a client has closed the connection to the master")
                return
        elif state in (Link.TRANSFER, Link.LOADING):
            self._send(b"\n")
        silent = self._clock() - self._link.received_at if self._link is not None else 0.0
        is_reading = self._link is not None and not self._link.is_paused
        if state is not Link.LOADING and is_reading and silent > self._core.config.integer("repl-timeout"):
            self.lost(f"nothing received for {int(silent)} seconds (repl-timeout)")

    # -- facts --------------------------------------------------------------------------------------------------------

    def role_report(self) -> RoleReport:
        """Return the current state, for ROLE and INFO."""
        return RoleReport(
            host=self._host,
            port=self._port,
            state=self._machine.state,
            offset=self._history.offset if self._has_history else None,
            link=self._link,
            transfer=self._sync.transfer if self._sync is not None else None,
            keeps_old_data=self._keeps_old_data,
            intake=self._applying.intake if self._applying is not None else None,
            trouble=self.trouble,
            down_since=self._down_since,
            now=self._clock(),
        )
