"""A server as a replica: it follows a master, from REPLICAOF host port to REPLICAOF NO ONE.

It owns the link and drives it (:mod:`engine.shell.replication.replica.link_states`): who is who
(:mod:`engine.shell.replication.replica.handshake`), all data, read into databases of their own
(:mod:`engine.shell.replication.replica.transfer`), then what the master does from there on
(:mod:`engine.shell.replication.replica.intake`). Everything is done a little at a time. Clients are served in between:
from the data that were there before, or with an error, as ``replica-serve-stale-data`` and ``repl-diskless-load`` say.

What breaks is tried again, after a pause that grows. What cannot be taken at all, because the engine has no such
command or type, is not: the server stops following, and INFO says why, until the next REPLICAOF. It never goes on with
data that differ from its master's. It is one file of more than 400 lines because each step hands over to the next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from engine.core.admission import Refusal
from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.environment.failures import FatalError
from engine.core.formats.damage import DamagedError, ForeignError
from engine.core.keyspace.changes import NEVER
from engine.core.protocol.replies import OK, CommandError, Reply, Simple
from engine.settings.kinds import ConfigError
from engine.shell.clock import now_us
from engine.shell.durability.formats.position import Position
from engine.shell.observation.reporting import LOG
from engine.shell.replication.history import History
from engine.shell.replication.replica.handshake import (
    LINE_LIMIT,
    Continue,
    Full,
    Handshake,
    HandshakeError,
    Introduction,
    command,
)
from engine.shell.replication.replica.intake import Intake
from engine.shell.replication.replica.link import MasterLink
from engine.shell.replication.replica.link_states import Link, LinkEvent, link
from engine.shell.replication.replica.logged import Logged
from engine.shell.replication.replica.situation import Situation
from engine.shell.replication.replica.surroundings import Downstream, Handover, Surroundings
from engine.shell.replication.replica.transfer import Transfer, TransferError
from engine.shell.tls import client_context
from engine.text.messages import server
from engine.version import REDIS_VERSION

#: Seconds between two looks at what is due: acknowledgements, signs of life, timeouts.
_PERIOD = 1.0
#: Seconds before an attempt to reach the master: the first, and the most. Each time they are doubled.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
#: The same where a full synchronisation came to nothing: another one costs the master a lot.
_SHORTEST_COSTLY_PAUSE, _LONGEST_COSTLY_PAUSE = 1.0, 60.0
#: Bytes of the master that may wait here before no more are taken.
_MOST_WAITING = 8 << 20


class Following:
    """One server's. ``history`` is shared with those who serve its own replicas."""

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
        self._transfer: Transfer | None = None
        #: The data that there are are served until those being transferred are whole (repl-diskless-load swapdb).
        self._is_beside = False
        #: The history that the data being transferred belong to.
        self._full = Full(b"", 0)
        self._intake: Intake | None = None
        self._session: Session | None = None
        #: The database that the master's next command is about.
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
        self._works = False
        #: Why the link is down, as far as that is known; since when, -1: it never was up.
        self.trouble = ""
        self._down_since = -1.0
        self._logged = Logged()
        config = core.config
        for name in ("replica-read-only", "replica-serve-stale-data"):
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
        return self._db if self._session is None else self._session.db

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
        beside = loading and self._transfer is not None and self._is_beside
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
            version=REDIS_VERSION.encode(),
        )
        asked = (self._history.id, self._history.offset + 1) if self._has_history else None
        self._handshake = Handshake(who, asked, hands_over=self._handover is not None)
        self._lines = b""
        self._send(self._handshake.begin())

    def _capabilities(self) -> tuple[bytes, ...]:
        """What this server can do with a file. The engine's own format needs all of it before any of it is read."""
        known = (b"eof", b"psync2")
        return (*known, b"psb") if self._core.config.text("repl-diskless-load") == b"disabled" else known

    def received(self, data: bytes) -> None:
        """Bytes of the master."""
        state = self._machine.state
        if state is Link.FOLLOWING and self._intake is not None:
            self._intake.feed(data)
            if not self._works:
                self._work()
        elif state is Link.HANDSHAKE:
            self._talk(data)
        elif state is Link.TRANSFER:
            self._receive(data)
        elif state is Link.LOADING:
            self._early.append(data)
            self._restrain()

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

    def _refuse(self, why: str) -> None:
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
        self._handshake, self._intake, self._early = None, None, []
        if self._session is not None:
            self._db = self._session.db
            self._core.close_session(self._session)
            self._session = None
        if self._transfer is not None:
            self._transfer.close()
            self._transfer = None
            if self._machine.state is Link.LOADING and not self._is_beside:
                # What was here has been freed to make room.
                self._has_history = False
                self._core.durability.end_replacing()

    def _send(self, data: bytes) -> None:
        if self._link is not None:
            self._link.send(data)

    def _restrain(self) -> None:
        """Take no more bytes of the master than can be used."""
        if self._link is not None:
            waiting = self._intake.waiting if self._intake is not None else sum(map(len, self._early))
            too_many = self._transfer is not None and self._transfer.is_full
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
            self._begin_transfer(outcome)
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
        self._begin_intake()

    # -- all data -----------------------------------------------------------------------------------------------------

    def _begin_transfer(self, full: Full) -> None:
        self._machine.fire(LinkEvent.FULL)
        self._full = full
        self._tell_what_is_discarded(full)
        load = self._core.config.text("repl-diskless-load")
        empty = not any(len(db) for db in self._core.databases)
        self._is_beside = load == b"swapdb"
        try:
            self._transfer = Transfer(
                self._core, self._clock, directly=self._is_beside or (load == b"on-empty-db" and empty)
            )
        except TransferError as error:
            self.lost(str(error), costly=True)
        else:
            self._transfer.on_loaded = self._load

    def _tell_what_is_discarded(self, full: Full) -> None:
        keys = sum(len(db) for db in self._core.databases)
        LOG.info(
            "full synchronisation: the master sends all data at offset %d of its history %s",
            full.offset,
            full.id.decode(),
        )
        if self._has_history and keys:
            LOG.warning(
                "discarded: %d keys at offset %d of the history %s, which the master does not continue%s",
                keys,
                self._history.offset,
                self._history.id.decode(),
                f" ({self._history.offset - full.offset} bytes beyond where it is)"
                if self._history.offset > full.offset
                else "",
            )
            if self._unconfirmed:
                LOG.warning(
                    "discarded: the last %d bytes of that history no replica has acknowledged", self._unconfirmed
                )
        elif keys:
            LOG.warning("discarded: %d keys, which this server had before it followed a master", keys)

    def _receive(self, data: bytes) -> None:
        transfer = self._transfer
        assert transfer is not None
        try:
            rest = transfer.feed(data)
        except TransferError as error:
            self.lost(str(error), costly=True)
            return
        if transfer.is_received:
            self._machine.fire(LinkEvent.RECEIVED)
            LOG.info("all data of the master have come: %d bytes", transfer.received)
            if not self._is_beside:
                self._core.durability.begin_replacing()
                for db in self._core.databases:
                    db.clear()
            self._follow_directives()
        if transfer.is_received or transfer.is_direct:
            self._restrain()
            if not self._works:
                self._works = True
                self._load()
        if rest:
            self.received(rest)

    def _load(self) -> None:
        """Read a little of the data, and go on in the next event-loop iteration."""
        transfer = self._transfer
        self._works = False
        if transfer is None or self._machine.state not in (Link.TRANSFER, Link.LOADING):
            return
        try:
            self._works = transfer.work()
        except TransferError as error:
            self.lost(str(error), costly=True)
            return
        except ForeignError as error:
            self._refuse(f"byte {error.offset} of its data: {error.what}")
            return
        except DamagedError as error:
            self.lost(f"byte {error.offset} of its data: {error.what}", costly=True)
            return
        except Exception as error:  # noqa: BLE001 - the data are thrown away, nothing else knows them
            LOG.exception("unforeseen error while the master's data were read")
            self.lost(f"its data cannot be read: {error!r}", costly=True)
            return
        if transfer.is_done:
            self._put_in_place(transfer)
        elif self._works:
            asyncio.get_running_loop().call_soon(self._load)
        if self._transfer is not None:
            self._restrain()

    def _put_in_place(self, transfer: Transfer) -> None:
        core, summary = self._core, transfer.summary
        self._around.settle()
        if self._is_beside:
            core.durability.begin_replacing()
        transfer.put_in_place()
        core.durability.end_replacing()
        transfer.close()
        self._transfer = None
        self._history.adopt(self._full.id, self._full.offset)
        self._has_history, self._unconfirmed = True, 0
        selected = summary.about.get(b"repl-stream-db", b"")
        self._db = int(selected) if selected.isdigit() and int(selected) < len(core.databases) else 0
        self._machine.fire(LinkEvent.LOADED)
        self._costly_pause = _SHORTEST_COSTLY_PAUSE
        LOG.info("%d keys of the master are here", summary.keys)
        for kind, count in summary.left_out.items():
            LOG.warning("left out as 'load-unknown skip' says: %d of the type %s", count, kind)
        self._downstream.cut_off_all()
        self._begin_intake()
        early, self._early = self._early, []
        for data in early:
            self.received(data)
        if self._link is not None and self._link.is_closed:
            self.lost("it was lost while the data were read")

    # -- what the master does -----------------------------------------------------------------------------------------

    def _begin_intake(self) -> None:
        core = self._core
        self._history.keep()
        self._pause = _SHORTEST_PAUSE
        self.trouble = ""
        self._logged.clear()
        session = self._session = core.open_session(now_us())
        core.accounts.trust(session)
        session.is_master, session.db = True, self._db
        if self._link is not None:
            session.addr, session.laddr = self._link.address
        skips = core.config.text("load-unknown") == b"skip"
        self._intake = Intake(core, session, self._history.offset, self._downstream.send, skip_unknown=skips)
        self._follow_directives()
        self._around.settle()
        self.tell_master()

    def _work(self) -> None:
        """Do a little of what the master did, and go on in the next event-loop iteration."""
        intake, session = self._intake, self._session
        self._works = False
        if intake is None or session is None or self._around.failed:
            return
        try:
            intake.work()
        except DamagedError as error:
            self._settle()
            self._refuse(f"at offset {error.offset} of the stream: {error.what}")
            return
        except (FatalError, Exception) as error:  # noqa: BLE001 - the data may be half changed
            self._around.fail(error)
            return
        self._settle()
        if session.close_requested:
            self.lost("a client has closed the connection to the master")
            return
        if intake.is_asked:
            intake.is_asked = False
            self.tell_master()
        if not intake.is_idle:
            self._works = True
            asyncio.get_running_loop().call_soon(self._work)
        self._restrain()

    def _settle(self) -> None:
        self._around.settle()
        self._logged.note(self._core.durability, self._history.offset)

    def tell_master(self) -> None:
        """Say how far this server is, in memory and, where there is a log, on the disk."""
        if not self.is_up:
            return
        words = [b"REPLCONF", b"ACK", b"%d" % self._history.offset]
        durability = self._core.durability
        if durability.logging:
            words += [b"FACK", b"%d" % self._logged.on_disk(durability, self._history.offset)]
        self._send(command(*words))

    # -- time ---------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_PERIOD, self._tick)
        state = self._machine.state
        if state is Link.FOLLOWING:
            self.tell_master()
            if self._session is not None and self._session.close_requested:
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
            transfer=self._transfer,
            is_beside=self._is_beside,
            intake=self._intake,
            trouble=self.trouble,
            down_since=self._down_since,
            now=self._clock(),
        )
