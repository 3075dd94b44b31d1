"""A server as a replica: it follows a master, from REPLICAOF host port to REPLICAOF NO ONE.

It owns the link and drives it (:mod:`engine.shell.replication.replica.link_states`): who is who
(:mod:`engine.shell.replication.replica.handshake`), all data
(:mod:`engine.shell.replication.replica.full_sync`), then what the master does from there on
(:mod:`engine.shell.replication.replica.applying`). Everything is done a little at a time. Clients are served in
between: from the data that were there before, or with an error, as ``replica-serve-stale-data`` and
``repl-diskless-load`` say.

What breaks is tried again, after a pause that grows. What cannot be taken at all, because the engine has no such
command or type, is not: the server stops following, and INFO says why, until the next REPLICAOF. It never goes on with
data that differ from its master's. It is one file of more than 400 lines because all states of the link are left here.
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
from engine.shell.durability.formats.position import Position
from engine.shell.observation.reporting import LOG
from engine.shell.replication.history import History
from engine.shell.replication.replica.applying import Applying
from engine.shell.replication.replica.full_sync import FullSync, tell_what_is_discarded
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
from engine.shell.replication.replica.logged import Logged
from engine.shell.replication.replica.situation import Situation
from engine.shell.replication.replica.surroundings import Downstream, Handover, Surroundings
from engine.shell.replication.replica.transfer import TransferError
from engine.shell.tls import client_context
from engine.text.messages import server

#: Seconds between two looks at what is due: acknowledgements, signs of life, timeouts.
_PERIOD = 1.0
#: Seconds before an attempt to reach the master: the first, and the most. Each time they are doubled.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
#: The same where a full synchronisation came to nothing: another one costs the master a lot.
_SHORTEST_COSTLY_PAUSE, _LONGEST_COSTLY_PAUSE = 1.0, 60.0
#: Bytes of the master that may wait here before no more are taken.
_MOST_WAITING = 8 << 20
#: The version that this replica tells its master. Valkey's masters choose their file by it: to one that says less than
#: 9 they send none at all where a hash has fields that expire. Redis's and the engine's choose by capabilities.
_LIKE_VALKEY = b"9.1.0"


class Following:
    """One server's. ``history`` is shared with those who serve its own replicas."""

    # One piece: the attributes are the state of one link (`link_states`), and change together at its transitions.

    def __init__(
        self,
        core: Core,
        surroundings: Surroundings,
        downstream: Downstream,
        history: History,
        port: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core = core
        self._around = surroundings
        self._downstream = downstream
        self._history = history
        self._own_port = port
        self._clock = clock
        self._machine = link()
        self._host, self._port = b"", 0
        self._link: MasterLink | None = None
        self._handshake: Handshake | None = None
        #: This server was the master until now, and hands over to the one that it follows.
        self._handover: Handover | None = None
        self._lines = b""
        #: All data, on their way; what the master does behind them.
        self._sync: FullSync | None = None
        self._applying: Applying | None = None
        #: The database that the master's next command is about, while there is no link.
        self._db = 0
        #: What came behind the data while they were read.
        self._early: list[bytes] = []
        #: The data are those of the history, up to its offset: what follows may be asked for.
        self._has_history = False
        #: Bytes that this server made of it as a master and that no replica has acknowledged.
        self._unconfirmed = 0
        self._timer: asyncio.TimerHandle | None = None
        self._retry: asyncio.Handle | None = None
        self._pause, self._costly_pause = _SHORTEST_PAUSE, _SHORTEST_COSTLY_PAUSE
        #: Why the link is down, as far as that is known; since when, -1: it never was up.
        self.trouble = ""
        self._down_since = -1.0
        self._logged = Logged()
        config = core.config
        for name in ("replica-read-only", "replica-serve-stale-data", "replica-ignore-maxmemory"):
            config.on_change(name, self._follow_directives)

    # -- roles --------------------------------------------------------------------------------------------------------

    @property
    def position(self) -> Position | None:
        """Where in its master's history the data of a replica are; None where they belong to none."""
        is_cleared = self._machine.state is Link.LOADING and not self._is_beside
        if not self._has_history or is_cleared:
            return None
        return Position(self._history.id, self._history.offset, self.stream_db)

    def resume(self, db: int) -> None:
        """The history is as this server left it as a replica; the stream was in this database."""
        self._db = db

    @property
    def is_on(self) -> bool:
        """Whether this server is a replica."""
        return self._machine.state is not Link.OFF

    @property
    def is_up(self) -> bool:
        """Whether it does what its master does, so that others may follow it."""
        return self._machine.state is Link.FOLLOWING

    @property
    def is_synchronising(self) -> bool:
        """Whether all data of the master are on their way: what is here is not what it has."""
        return self._machine.state in (Link.TRANSFER, Link.LOADING)

    @property
    def stream_db(self) -> int:
        """The database that the master's next command is about."""
        return self._db if self._applying is None else self._applying.db

    @property
    def _is_beside(self) -> bool:
        """Whether the data that there are are served until those on their way are whole (repl-diskless-load swapdb)."""
        return self._sync is not None and self._sync.is_beside

    def follow(self, host: bytes, port: int, handover: Handover | None = None) -> Reply:
        """Be a replica of another server from now on. The link is opened after the present command.

        With a ``handover`` this server was its master so far.
        """
        if self.is_on and self._machine.state is not Link.REFUSED and (host, port) == (self._host, self._port):
            return Simple(server.ALREADY_FOLLOWS)
        LOG.info("following the master %s:%d from now on", host.decode("utf-8", "backslashreplace"), port)
        was_on = self.is_on
        self._let_go()
        self._machine.fire(LinkEvent.FOLLOW)
        self._host, self._port, self._handover = host, port, handover
        self._core.config.note("replicaof", (host, b"%d" % port))
        if not was_on:
            # As a master it had a history of its own only where somebody got it.
            self._has_history = self._history.keeps
            self._begin_role()
            self._unconfirmed = max(self._history.offset - self._downstream.confirmed, 0)
        self._down_since, self.trouble = -1.0, ""
        self._pause, self._costly_pause = _SHORTEST_PAUSE, _SHORTEST_COSTLY_PAUSE
        self._follow_directives()
        self._retry = asyncio.get_running_loop().call_soon(self._connect)
        return OK

    def _begin_role(self) -> None:
        core = self._core
        core.changes.hold_expiry("master", NEVER)
        self._downstream.begin_following(keep_replicas=self._handover is not None)
        waiting = core.sessions.blocked()
        for session in waiting:
            core.sessions.end_wait(session, CommandError(server.ROLE_CHANGED))

        def finish() -> None:
            for session in waiting:
                self._around.finish(session)

        core.host.after_reply(finish)
        self._tick()

    def lead(self) -> None:
        """Follow nobody any more. The data stay; the history goes on under a new name."""
        if not self.is_on:
            return
        LOG.info("following no master any more; the history has %d bytes so far", self._history.offset)
        self._let_go()
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
        self._downstream.begin_leading()

    def stop(self) -> None:
        """The process ends."""
        self._let_go()
        if self._timer is not None:
            self._timer.cancel()

    def _follow_directives(self) -> None:
        config, admission, state = self._core.config, self._core.admission, self._machine.state
        read_only = state is not Link.OFF and config.flag("replica-read-only")
        stale = state not in (Link.OFF, Link.FOLLOWING) and not config.flag("replica-serve-stale-data")
        loading = state is Link.LOADING
        beside = loading and self._is_beside
        admission.memory_counts = state is Link.OFF or not config.flag("replica-ignore-maxmemory")
        admission.refuse(Refusal.READONLY, server.READONLY if read_only else b"")
        admission.refuse(Refusal.STALE, server.MASTER_DOWN if stale else b"")
        admission.refuse(Refusal.LOADING, server.LOADING if loading and not beside else b"")
        admission.refuse(Refusal.LOADING_BESIDE, server.LOADING if beside else b"")

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
        """The link is open: say who this is."""
        self._machine.fire(LinkEvent.CONNECTED)
        config = self._core.config
        who = Introduction(
            config.text("masteruser"),
            config.text("masterauth"),
            config.integer("replica-announce-port") or self._own_port,
            config.text("replica-announce-ip"),
            capabilities=self._capabilities(),
            version=_LIKE_VALKEY,
        )
        asked = (self._history.id, self._history.offset + 1) if self._has_history else None
        self._handshake = Handshake(who, asked, hands_over=self._handover is not None)
        self._lines = b""
        self._send(self._handshake.begin())

    def _capabilities(self) -> tuple[bytes, ...]:
        """What this server can do with a file. It reads any version of RDB (``rdb-any``). The engine's own format
        needs all of it before any of it is read.
        """
        known = (b"eof", b"psync2", b"rdb-any")
        return (*known, b"psb") if self._core.config.text("repl-diskless-load") == b"disabled" else known

    def received(self, data: bytes) -> None:
        """Bytes of the master."""
        state = self._machine.state
        if state is Link.FOLLOWING and self._applying is not None:
            self._applying.feed(data)
        elif state is Link.HANDSHAKE:
            self._talk(data)
        elif state is Link.TRANSFER and self._sync is not None:
            rest = self._sync.feed(data)
            if rest:
                self.received(rest)
        elif state is Link.LOADING:
            self._early.append(data)
            self.restrain()

    def lost(self, why: str, *, costly: bool = False) -> None:
        """The link is broken, or the master says nothing more, or nothing that can be used: try again later."""
        state = self._machine.state
        if state is Link.LOADING and not costly:
            # The data are here; the rest is asked for when they have been read.
            return
        where = f"{self._host.decode('utf-8', 'backslashreplace')}:{self._port}"
        LOG.warning("the link to the master %s is down (%s): %s", where, state.name.lower(), why)
        if state is Link.FOLLOWING:
            self._down_since = self._clock()
            self._pause = _SHORTEST_PAUSE
        self.trouble = why
        is_rejected = self._handshake is not None and self._handshake.has_asked
        pause = self._costly_pause if costly or state is Link.TRANSFER else self._pause
        self._let_go()
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
        """Follow no further: what the master sends cannot be taken."""
        LOG.error(
            "the master %s:%d is followed no further: %s; REPLICAOF tries again",
            self._host.decode("utf-8", "backslashreplace"),
            self._port,
            why,
        )
        if self._machine.state is Link.FOLLOWING:
            self._down_since = self._clock()
        self.trouble = why
        self._let_go()
        self._has_history = False
        self._machine.fire(LinkEvent.UNUSABLE)
        self._follow_directives()

    def _let_go(self) -> None:
        """Close whatever is open; the state is the caller's."""
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
                # What was here has been freed to make room.
                self._has_history = False
            self._sync = None

    def _send(self, data: bytes) -> None:
        if self._link is not None:
            self._link.send(data)

    def restrain(self) -> None:
        """Take no more bytes of the master than can be used."""
        if self._link is not None:
            waiting = self._applying.intake.waiting if self._applying is not None else sum(map(len, self._early))
            too_many = self._sync is not None and self._sync.transfer.is_full
            self._link.pause(too_many or waiting > _MOST_WAITING)

    # -- handshake ----------------------------------------------------------------------------------------------------

    def _talk(self, data: bytes) -> None:
        assert self._handshake is not None
        self._lines += data
        while self._handshake.outcome is None:
            line, end, rest = self._lines.partition(b"\n")
            if not end:
                if len(self._lines) > LINE_LIMIT:
                    self.lost("its answer is too long")
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
            self._begin_full_sync(outcome)
        else:
            self._go_on(outcome)
        if handover is not None:
            handover.accepted()
        if rest:
            self.received(rest)

    def _go_on(self, outcome: Continue) -> None:
        """The master has what is missing here."""
        self._machine.fire(LinkEvent.CONTINUE)
        self._unconfirmed = 0
        LOG.info("the master goes on from offset %d: nothing was lost", self._history.offset)
        if outcome.id and outcome.id != self._history.id:
            self._history.rename(outcome.id)
            self._downstream.cut_off_all()
        self._begin_applying()

    # -- all data -----------------------------------------------------------------------------------------------------

    def _begin_full_sync(self, full: Full) -> None:
        self._machine.fire(LinkEvent.FULL)
        tell_what_is_discarded(self._core, full, self._history if self._has_history else None, self._unconfirmed)
        try:
            self._sync = FullSync(self._core, self._clock, full, self)
        except TransferError as error:
            self.lost(str(error), costly=True)

    def data_came(self) -> None:
        """All bytes are here: they are read from now on."""
        self._machine.fire(LinkEvent.RECEIVED)
        self._follow_directives()

    def data_read(self) -> None:
        """All has been read, and is to be put in place."""
        sync = self._sync
        assert sync is not None
        self._around.settle()
        summary = sync.put_in_place()
        self._sync = None
        self._history.adopt(sync.full.id, sync.full.offset)
        self._has_history, self._unconfirmed = True, 0
        self._logged.forget()
        selected = summary.about.get(b"repl-stream-db", b"")
        self._db = int(selected) if selected.isdigit() and int(selected) < len(self._core.databases) else 0
        self._machine.fire(LinkEvent.LOADED)
        self._costly_pause = _SHORTEST_COSTLY_PAUSE
        LOG.info("%d keys of the master are here", summary.keys)
        for kind, count in summary.left_out.items():
            LOG.warning("left out as 'load-unknown skip' says: %d of the type %s", count, kind)
        self._downstream.cut_off_all()
        self._begin_applying()
        early, self._early = self._early, []
        for data in early:
            self.received(data)
        if self._link is not None and self._link.is_closed:
            self.lost("it was lost while the data were read")

    # -- what the master does -----------------------------------------------------------------------------------------

    def _begin_applying(self) -> None:
        self._history.keep()
        self._pause = _SHORTEST_PAUSE
        self.trouble = ""
        address = self._link.address if self._link is not None else (b"", b"")
        self._applying = Applying(
            self._core, self._around, self._downstream, self._history, self._logged, self, self._db, address
        )
        self._follow_directives()
        self._around.settle()
        self.tell_master()

    def tell_master(self) -> None:
        """Say how far this server is."""
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
        silent = self._clock() - self._link.heard_at if self._link is not None else 0.0
        hears = self._link is not None and not self._link.is_paused
        if state is not Link.LOADING and hears and silent > self._core.config.integer("repl-timeout"):
            self.lost(f"nothing was heard of it for {int(silent)} seconds (repl-timeout)")

    # -- what is told -------------------------------------------------------------------------------------------------

    def situation(self) -> Situation:
        """How things are at this moment, for those who ask."""
        return Situation(
            host=self._host,
            port=self._port,
            state=self._machine.state,
            offset=self._history.offset if self._has_history else None,
            link=self._link,
            transfer=self._sync.transfer if self._sync is not None else None,
            is_beside=self._is_beside,
            intake=self._applying.intake if self._applying is not None else None,
            trouble=self.trouble,
            down_since=self._down_since,
            now=self._clock(),
        )
