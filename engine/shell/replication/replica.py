"""Replica role of a server: it follows a master, from REPLICAOF host port to REPLICAOF NO ONE.

          FOLLOW             DUE                CONNECTED                FULL                RECEIVED
    OFF ─────────> WAITING ───────> CONNECTING ───────────> HANDSHAKE ─────────> TRANSFER ──────────> LOADING
                    ^                                           │                                        │
                    │                                           │ CONTINUE                        LOADED │
                    │ LOST, from all states after WAITING       v                                        │
                    └────────────────────────────────────── FOLLOWING <──────────────────────────────────┘

    FOLLOW (REPLICAOF host port) leads from every state to WAITING, LEAD (REPLICAOF NO ONE) from every state to OFF.
    UNUSABLE leads from LOADING and FOLLOWING to REFUSED, which only REPLICAOF ends.

A link that is lost during LOADING fires LOST only after LOADED; the rest of the stream is then requested over a new
link. During LOADING, LOST is fired only if the received data is damaged or unreadable; it is then requested again.

The handshake and a full synchronisation are in `engine.shell.replication.link`, applying the master's stream is in
`engine.shell.replication.intake`. All work is done in small steps. In between, clients are served from the old data, or
get an error with ``replica-serve-stale-data no``. A pause (CLIENT PAUSE, or a shutdown
that waits for replicas) holds the stream back like the commands of clients.

A broken link is retried after a growing delay. If the master sends a type that the engine does not support, or a stream
that cannot be applied, the server stops following it until the next REPLICAOF, and INFO shows the reason.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from engine.core.admission import Refusal
from engine.core.dispatch import Core, FatalError
from engine.core.formats.damage import DamagedError, ForeignError
from engine.core.keyspace.changes import NEVER
from engine.core.protocol.replies import OK, CommandError, Reply, Simple
from engine.settings.kinds import ConfigError
from engine.shell.clock import now_us
from engine.shell.durability.position import Position
from engine.shell.observation.log_lines import LOG
from engine.shell.replication.history import History
from engine.shell.replication.intake import Intake
from engine.shell.replication.link import (
    LINE_LIMIT,
    Continue,
    Full,
    FullSync,
    FullSyncError,
    Handshake,
    HandshakeError,
    Introduction,
    MasterLink,
    Payload,
    command,
)
from engine.shell.replication.master import Master
from engine.shell.replication.replicas import Clients
from engine.shell.tls import client_context
from engine.text import messages


class LinkState(Enum):
    """State of the link to the master."""

    #: This server is not a replica.
    OFF = auto()
    #: The next attempt starts soon.
    WAITING = auto()
    CONNECTING = auto()
    #: This server identifies itself and requests the master's data or stream: PING, AUTH, REPLCONF, PSYNC.
    HANDSHAKE = auto()
    #: All data of the master is being received.
    TRANSFER = auto()
    #: All data has been received, and replaces the current data.
    LOADING = auto()
    #: The master's stream is being applied.
    FOLLOWING = auto()
    #: The master's data is not supported, or its stream cannot be applied: this server has stopped following it.
    REFUSED = auto()


class LinkEvent(Enum):
    """Events of the link."""

    FOLLOW = auto()
    LEAD = auto()
    DUE = auto()
    CONNECTED = auto()
    FULL = auto()
    CONTINUE = auto()
    RECEIVED = auto()
    LOADED = auto()
    LOST = auto()
    UNUSABLE = auto()


_S, _E = LinkState, LinkEvent
_TABLE: dict[tuple[LinkState, LinkEvent], LinkState] = {
    **{(state, _E.FOLLOW): _S.WAITING for state in LinkState},
    **{(state, _E.LEAD): _S.OFF for state in LinkState},
    **{(state, _E.LOST): _S.WAITING for state in LinkState if state not in (_S.OFF, _S.WAITING, _S.REFUSED)},
    **{(state, _E.UNUSABLE): _S.REFUSED for state in (_S.LOADING, _S.FOLLOWING)},
    (_S.WAITING, _E.DUE): _S.CONNECTING,
    (_S.CONNECTING, _E.CONNECTED): _S.HANDSHAKE,
    (_S.HANDSHAKE, _E.FULL): _S.TRANSFER,
    (_S.HANDSHAKE, _E.CONTINUE): _S.FOLLOWING,
    (_S.TRANSFER, _E.RECEIVED): _S.LOADING,
    (_S.LOADING, _E.LOADED): _S.FOLLOWING,
}
#: Names of the states in ROLE.
_NAMES = {
    LinkState.WAITING: b"connect",
    LinkState.REFUSED: b"connect",
    LinkState.CONNECTING: b"connecting",
    LinkState.HANDSHAKE: b"handshake",
    LinkState.TRANSFER: b"sync",
    LinkState.LOADING: b"sync",
    LinkState.FOLLOWING: b"connected",
}

#: Seconds after which the stream checks again whether a pause has ended.
_PAUSE_CHECK = 0.05
#: Seconds between two rounds of periodic work: acknowledgements, keepalives, timeouts.
_PERIOD = 1.0
#: First delay in seconds before another attempt to reach the master. The delay doubles with each failed attempt.
_SHORTEST_DELAY = 0.1
#: Maximum delay in seconds before another attempt to reach the master.
_LONGEST_DELAY = 5.0
#: First delay in seconds after a failed full synchronisation. It is longer than `_SHORTEST_DELAY`, because a full
#: synchronisation is expensive for the master.
_SHORTEST_COSTLY_DELAY = 1.0
#: Maximum delay in seconds after failed full synchronisations.
_LONGEST_COSTLY_DELAY = 60.0
#: Maximum number of the master's bytes waiting to be processed; above that, reading pauses.
_MOST_WAITING = 8 << 20
#: Version that this replica announces to its master. A Valkey master chooses the format of its RDB file by this
#: version, and sends no file to a replica below version 9 if hash fields have deadlines. Redis uses capabilities.
_LIKE_VALKEY = b"9.1.0"


class ReplicaRole:
    """Replica role of one server. ``master``: its other role, which shares the history and serves its own replicas."""

    # A single class, because the attributes are the state of one link, and change together at its transitions.

    def __init__(
        self,
        core: Core,
        clients: Clients,
        master: Master,
        port: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core = core
        self._clients = clients
        self._master = master
        self._history: History = master.history
        self._own_port = port
        self._clock = clock
        self._state = LinkState.OFF
        self._host, self._port = b"", 0
        self._link: MasterLink | None = None
        self._handshake: Handshake | None = None
        #: Set during a failover in which this server, the former master, hands over to the server that it follows.
        #: Called with an empty text if the other server is now the master, otherwise with the reason why it is not.
        self._handover: Callable[[str], None] | None = None
        #: The handshake's received bytes after its last complete line.
        self._received = b""
        #: The full synchronisation in progress, if any.
        self._sync: FullSync | None = None
        #: Applies the master's stream; None if the stream is not being received.
        self._intake: Intake | None = None
        #: Whether the stream is being applied in a later event-loop iteration.
        self._is_due = False
        #: Database selected for the master's next command, while there is no link; loaded with a position from disk.
        self.db = 0
        #: Bytes of the stream that arrived while the data was being loaded.
        self._early: list[bytes] = []
        #: Whether the data matches the history up to its offset, so that the rest may be requested.
        self._has_history = False
        #: How many bytes at the end of the history this server wrote as a master and no replica has acknowledged.
        self._unconfirmed = 0
        self._timer: asyncio.TimerHandle | None = None
        self._retry: asyncio.Handle | None = None
        self._delay, self._costly_delay = _SHORTEST_DELAY, _SHORTEST_COSTLY_DELAY
        #: Reason why the link is down; empty if unknown.
        self.trouble = ""
        #: Time when the link was lost; -1 if the link was never up.
        self._down_since = -1.0
        config = core.config
        for name in ("replica-read-only", "replica-serve-stale-data", "replica-ignore-maxmemory"):
            config.on_change(name, self._follow_directives)

    # -- roles --------------------------------------------------------------------------------------------------------

    @property
    def position(self) -> Position | None:
        """Position of a replica's data in its master's history; None if the data does not match that history."""
        if not self._has_history:
            return None
        return Position(self._history.id, self._history.offset, self.stream_db)

    def _fire(self, event: LinkEvent) -> None:
        """Change the state. Raises KeyError for an event that the table does not have in this state."""
        self._state = _TABLE[self._state, event]

    @property
    def _name(self) -> str:
        """The master's address, for the log."""
        return f"{self._host.decode('utf-8', 'backslashreplace')}:{self._port}"

    @property
    def is_on(self) -> bool:
        """Whether this server is a replica."""
        return self._state is not LinkState.OFF

    @property
    def is_up(self) -> bool:
        """Whether the stream is being applied, so that other servers may follow this one."""
        return self._state is LinkState.FOLLOWING

    @property
    def is_synchronising(self) -> bool:
        """Whether a full synchronisation is in progress: the current data is not the master's."""
        return self._state in (LinkState.TRANSFER, LinkState.LOADING)

    @property
    def stream_db(self) -> int:
        """Database selected for the master's next command."""
        return self.db if self._intake is None else self._intake.db

    def follow(self, host: bytes, port: int, handover: Callable[[str], None] | None = None) -> Reply:
        """Become a replica of another server. The link is opened after the current command.

        ``handover``: called with the result of a failover in which this server, until now the master of the other
        server, exchanges roles with it.
        """
        if self.is_on and self._state is not LinkState.REFUSED and (host, port) == (self._host, self._port):
            return Simple(b"OK Already connected to specified master")
        was_on = self.is_on
        self._close_link()
        self._fire(LinkEvent.FOLLOW)
        self._host, self._port, self._handover = host, port, handover
        LOG.info("following the master %s", self._name)
        self._core.config.note("replicaof", (host, b"%d" % port))
        if not was_on:
            # A master's history is valid only if a backlog was kept.
            self._has_history = self._history.keeps
            self._become_replica()
            self._unconfirmed = max(self._history.offset - self._master.confirmed, 0)
        self._down_since, self.trouble = -1.0, ""
        self._delay, self._costly_delay = _SHORTEST_DELAY, _SHORTEST_COSTLY_DELAY
        self._follow_directives()
        self._retry = asyncio.get_running_loop().call_soon(self._connect)
        return OK

    def _become_replica(self) -> None:
        core = self._core
        core.changes.hold_expiry("master", NEVER)
        self._master.start_following(keep_replicas=self._handover is not None)
        waiting = core.sessions.blocked()
        for session in waiting:
            core.sessions.end_wait(session, CommandError(messages.ROLE_CHANGED))

        def finish() -> None:
            for session in waiting:
                self._clients.finish(session)

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
        self._fire(LinkEvent.LEAD)
        self._core.config.note("replicaof", ())
        if self._timer is not None:
            self._timer.cancel()
        if self._has_history:
            self._history.lead()
        else:
            self._history.renew()
        self._core.changes.hold_expiry("master", 0)
        self._follow_directives()
        self._master.start_leading()

    def stop(self) -> None:
        """Close the link: the process is exiting."""
        self._close_link()
        if self._timer is not None:
            self._timer.cancel()

    def _follow_directives(self) -> None:
        config, admission, state = self._core.config, self._core.admission, self._state
        read_only = state is not LinkState.OFF and config.flag("replica-read-only")
        stale = state not in (LinkState.OFF, LinkState.FOLLOWING) and not config.flag("replica-serve-stale-data")
        admission.memory_counts = state is LinkState.OFF or not config.flag("replica-ignore-maxmemory")
        admission.refuse(Refusal.READONLY, messages.READONLY if read_only else b"")
        admission.refuse(
            Refusal.STALE,
            b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'." if stale else b"",
        )
        admission.refuse(
            Refusal.LOADING,
            b"LOADING Redis is loading the dataset in memory" if state is LinkState.LOADING else b"",
        )

    # -- the link -----------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        self._retry = None
        self._fire(LinkEvent.DUE)
        config = self._core.config
        self._link = MasterLink(self.connected, self.received, self.lost, self._clock)
        try:
            context = client_context(config) if config.flag("tls-replication") else None
        except ConfigError as error:
            self.lost(str(error))
            return
        self._link.open(self._host.decode("utf-8", "surrogateescape"), self._port, context)

    def connected(self) -> None:
        """Start the handshake: the link is open."""
        self._fire(LinkEvent.CONNECTED)
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
        self._received = b""
        self._send(self._handshake.start())

    def received(self, data: bytes) -> None:
        """Process bytes of the master."""
        state = self._state
        if state is LinkState.FOLLOWING and self._intake is not None:
            self._intake.feed(data)
            if not self._is_due:
                self._apply()
            self._limit_reading()
        elif state is LinkState.HANDSHAKE:
            self._continue_handshake(data)
        elif state is LinkState.TRANSFER and self._sync is not None:
            self._receive_data(self._sync, data)
        elif state is LinkState.LOADING:
            self._early.append(data)
            self._limit_reading()

    def lost(self, why: str, *, costly: bool = False) -> None:
        """Handle a broken link, a silent master, or damaged data: try again later.

        ``costly``: whether a full synchronisation has failed.
        """
        state = self._state
        if state is LinkState.LOADING and not costly:
            # Continue loading: all data has arrived. The rest of the stream is requested after the data was loaded.
            return
        LOG.warning("the link to the master %s is down (%s): %s", self._name, state.name.lower(), why)
        if state is LinkState.FOLLOWING:
            self._delay = _SHORTEST_DELAY
        has_asked = self._handshake is not None and self._handshake.has_asked
        delay = self._costly_delay if costly or state is LinkState.TRANSFER else self._delay
        self._go_down(LinkEvent.LOST, why)
        if costly or state is LinkState.TRANSFER:
            self._costly_delay = min(2 * delay, _LONGEST_COSTLY_DELAY)
        else:
            self._delay = min(2 * delay, _LONGEST_DELAY)
        self._retry = asyncio.get_running_loop().call_later(delay, self._connect)
        if self._handover is not None and has_asked:
            self._handover(why)

    def _refuse(self, why: str) -> None:
        """Stop following the master: its data is not supported, or its stream cannot be applied."""
        LOG.error("stopped following the master %s: %s; call REPLICAOF to try again", self._name, why)
        self._go_down(LinkEvent.UNUSABLE, why)
        self._has_history = False

    def _go_down(self, event: LinkEvent, why: str) -> None:
        if self.is_up:
            self._down_since = self._clock()
        self.trouble = why
        self._close_link()
        self._fire(event)
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
        if self._intake is not None:
            self.db = self._intake.db
            self._intake.close()
            self._intake = None
        if self._sync is not None:
            self._sync.close()
            self._sync = None

    def _send(self, data: bytes) -> None:
        if self._link is not None:
            self._link.send(data)

    def _limit_reading(self) -> None:
        """Pause reading from the master while too many bytes are waiting."""
        if self._link is not None:
            waiting = self._intake.waiting if self._intake is not None else sum(map(len, self._early))
            self._link.pause(waiting > _MOST_WAITING)

    # -- handshake ----------------------------------------------------------------------------------------------------

    def _continue_handshake(self, data: bytes) -> None:
        assert self._handshake is not None
        self._received += data
        while self._handshake.outcome is None:
            line, end, rest = self._received.partition(b"\n")
            if not end:
                if len(self._received) > LINE_LIMIT:
                    self.lost("the reply of the master is too long")
                return
            self._received = rest
            try:
                self._send(self._handshake.line(line.rstrip(b"\r")))
            except HandshakeError as error:
                self.lost(str(error))
                return
        outcome, rest, self._received = self._handshake.outcome, self._received, b""
        self._handshake = None
        handover, self._handover = self._handover, None
        if isinstance(outcome, Full):
            self._start_full_sync(outcome)
        else:
            self._go_on(outcome)
        if handover is not None:
            handover("")
        if rest:
            self.received(rest)

    def _go_on(self, outcome: Continue) -> None:
        """Continue with the rest of the master's history."""
        self._fire(LinkEvent.CONTINUE)
        self._unconfirmed = 0
        LOG.info("the master continues from offset %d", self._history.offset)
        if outcome.id and outcome.id != self._history.id:
            self._history.rename(outcome.id)
            self._master.cut_off_all()
        self._start_intake()

    # -- full synchronisation -----------------------------------------------------------------------------------------

    def _start_full_sync(self, full: Full) -> None:
        self._fire(LinkEvent.FULL)
        LOG.info(
            "full synchronisation: the master sends all data at offset %d of its history %s",
            full.offset,
            full.id.decode(),
        )
        try:
            self._sync = FullSync(self._core, self._clock, full, self._load)
        except FullSyncError as error:
            self.lost(str(error), costly=True)

    def _receive_data(self, sync: FullSync, data: bytes) -> None:
        """Add bytes to the data; when all have arrived, start loading, and process the bytes after them."""
        try:
            rest = sync.feed(data)
        except FullSyncError as error:
            self.lost(str(error), costly=True)
            return
        if sync.payload.is_complete:
            LOG.info("received all data of the master: %d bytes", sync.payload.received)
            self._fire(LinkEvent.RECEIVED)
            self._follow_directives()
            self._load()
        if rest:
            self.received(rest)

    def _load(self) -> None:
        """Load some of the data, and continue in the next event-loop iteration."""
        sync = self._sync
        if sync is None or self._state is not LinkState.LOADING:
            return
        try:
            is_due = sync.work()
        except ForeignError as error:
            self._refuse(f"byte {error.offset} of the master's data: {error.reason}")
        except DamagedError as error:
            self.lost(f"byte {error.offset} of the master's data: {error.reason}", costly=True)
        except FullSyncError as error:
            self.lost(str(error), costly=True)
        except Exception as error:  # noqa: BLE001 - the data is discarded, and nothing else refers to it
            LOG.exception("unexpected error while loading the master's data")
            self.lost(f"the master's data cannot be read: {error!r}", costly=True)
        else:
            if sync.is_done:
                self._put_in_place(sync)
            elif is_due:
                asyncio.get_running_loop().call_soon(self._load)

    def _log_discarded_data(self, full: Full) -> None:
        """Log what a full synchronisation discards: the old data, and its last bytes that no replica has."""
        keys, history = sum(len(db) for db in self._core.databases), self._history
        if not keys:
            return
        if not self._has_history:
            LOG.warning("discarding %d keys that this server had before it followed a master", keys)
            return
        more = history.offset - full.offset
        LOG.warning(
            "discarding %d keys at offset %d of the history %s, which the master does not continue%s",
            keys,
            history.offset,
            history.id.decode(),
            f" ({more} bytes more than the master has)" if more > 0 else "",
        )
        if self._unconfirmed:
            LOG.warning(
                "discarding the last %d bytes of that history, which no replica has acknowledged", self._unconfirmed
            )

    def _put_in_place(self, sync: FullSync) -> None:
        """Replace the data by the loaded data, and start applying the stream."""
        self._clients.settle()
        self._log_discarded_data(sync.full)
        summary = sync.put_in_place()
        self._sync = None
        self._history.adopt(sync.full.id, sync.full.offset)
        self._has_history, self._unconfirmed = True, 0
        selected = summary.about.get(b"repl-stream-db", b"")
        self.db = int(selected) if selected.isdigit() and int(selected) < len(self._core.databases) else 0
        self._fire(LinkEvent.LOADED)
        self._costly_delay = _SHORTEST_COSTLY_DELAY
        LOG.info("loaded %d keys of the master", summary.keys)
        self._master.cut_off_all()
        self._start_intake()
        early, self._early = self._early, []
        for data in early:
            self.received(data)
        if self._link is not None and self._link.is_closed:
            self.lost("the link was lost while the data was loaded")

    # -- the stream ---------------------------------------------------------------------------------------------------

    def _start_intake(self) -> None:
        self._history.keep()
        self._delay = _SHORTEST_DELAY
        self.trouble = ""
        address = self._link.address if self._link is not None else (b"", b"")
        self._intake = Intake(self._core, self._history.offset, self._master.send, self.db, address)
        self._is_due = False
        self._follow_directives()
        self._clients.settle()
        self.tell_master()

    def _apply(self) -> None:
        """Apply some of the stream, and continue in the next event-loop iteration."""
        self._is_due = False
        intake = self._intake
        if intake is None or self._clients.failed:
            return
        if self._core.pause.until > now_us() // 1000:
            self._is_due = True
            asyncio.get_running_loop().call_later(_PAUSE_CHECK, self._apply_due)
            return
        try:
            intake.work()
        except DamagedError as error:
            self._settle()
            self._refuse(f"at offset {error.offset} of the stream: {error.reason}")
            return
        except (FatalError, Exception) as error:  # noqa: BLE001 - the data may contain a half-done change
            self._clients.fail(error)
            return
        self._settle()
        if intake.is_closed_by_client:
            self.lost("a client has closed the connection to the master")
            return
        if intake.is_asked:
            intake.is_asked = False
            self.tell_master()
        if not intake.is_idle:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._apply_due)

    def _apply_due(self) -> None:
        if self._is_due:
            self._apply()
            self._limit_reading()

    def _settle(self) -> None:
        self._clients.settle()

    def tell_master(self) -> None:
        """Send an acknowledgement: the offset in memory."""
        if not self.is_up or self._intake is None:
            return
        self._send(command(b"REPLCONF", b"ACK", b"%d" % self._history.offset))

    # -- time ---------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_PERIOD, self._tick)
        state = self._state
        if state is LinkState.FOLLOWING:
            self.tell_master()
            if self._intake is not None and self._intake.is_closed_by_client:
                self.lost("a client has closed the connection to the master")
                return
        elif state in (LinkState.TRANSFER, LinkState.LOADING):
            self._send(b"\n")
        silent = self._clock() - self._link.received_at if self._link is not None else 0.0
        is_reading = self._link is not None and not self._link.is_paused
        if state is not LinkState.LOADING and is_reading and silent > self._core.config.integer("repl-timeout"):
            self.lost(f"nothing received for {int(silent)} seconds (repl-timeout)")

    # -- facts --------------------------------------------------------------------------------------------------------

    def role(self) -> Reply:
        """Return ROLE's reply."""
        offset = self._history.offset if self.is_up else -1
        return [b"slave", self._host, self._port, _NAMES[self._state], offset]

    def info(self) -> list[tuple[str, Any]]:
        """Return the lines of INFO replication about the master and the link to it."""
        config, now, link = self._core.config, self._clock(), self._link
        offset = self._history.offset if self._has_history else 0
        silent = int(now - link.received_at) if link is not None else -1
        lines: list[tuple[str, Any]] = [
            ("master_host", self._host.decode("utf-8", "backslashreplace")),
            ("master_port", self._port),
            ("master_link_status", "up" if self.is_up else "down"),
            ("master_last_io_seconds_ago", silent if self.is_up else -1),
            ("master_sync_in_progress", int(self.is_synchronising)),
            ("slave_read_repl_offset", offset + (self._intake.waiting if self._intake is not None else 0)),
            ("slave_repl_offset", offset),
        ]
        if self.is_synchronising:
            payload = self._sync.payload if self._sync is not None else Payload()
            received, known = payload.received, max(payload.size, 0)
            lines += [
                ("master_sync_total_bytes", known),
                ("master_sync_read_bytes", received),
                ("master_sync_left_bytes", max(known - received, 0)),
                ("master_sync_perc", f"{100 * received / known if known else 0:.2f}"),
                ("master_sync_last_io_seconds_ago", silent),
            ]
        if not self.is_up:
            since = int(now - self._down_since) if self._down_since >= 0 else -1
            lines.append(("master_link_down_since_seconds", since))
        lines += [
            ("slave_priority", config.integer("replica-priority")),
            ("slave_read_only", int(config.flag("replica-read-only"))),
            ("replica_announced", int(config.flag("replica-announced"))),
        ]
        if self.trouble and not self.is_up:
            lines.append(("engine_master_link_error", self.trouble.replace("\r", " ").replace("\n", " ")))
        if self._state is LinkState.REFUSED:
            lines.append(("engine_master_refused", 1))
        return lines

    def loading(self) -> list[tuple[str, Any]]:
        """Return INFO persistence's lines about data being loaded; empty if no data is being loaded."""
        sync = self._sync
        if sync is None or self._state is not LinkState.LOADING:
            return []
        seconds, read, total = sync.seconds, sync.read, sync.payload.received
        return [
            ("loading", 0),
            ("async_loading", 1),
            ("loading_start_time", now_us() // 1_000_000 - int(seconds)),
            ("loading_total_bytes", total),
            ("loading_loaded_bytes", read),
            ("loading_loaded_perc", f"{100 * read / total if total else 0:.2f}"),
            ("loading_eta_seconds", int(seconds * (total - read) / read) if read else 1),
        ]
