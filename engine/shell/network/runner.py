"""Runs clients' commands on the core, and takes to everybody what comes of them.

It owns the core, the connections by session, and every timer that the core's work needs: deadlines of blocked commands,
expiry of keys, the end of CLIENT PAUSE. The core's outbox is emptied after each command, so that whoever was woken, and
whoever listens, gets what is his in the same turn and in the order in which it happened.

The clock is read once for a client's turn. A turn ends with its last command, with a command that blocks, or when it
has taken its share; replies of one turn leave together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.keyspace.changes import NEVER, Effects
from engine.core.protocol.replies import BLOCKED, NO_REPLY, CommandError, Push, Reply
from engine.settings.kinds import OutputLimit
from engine.shell.clock import now_us
from engine.shell.housekeeping.memory_limit import MemoryLimit
from engine.shell.network.connection import Connection
from engine.shell.network.protection import is_refused
from engine.shell.network.reply_batch import Gate
from engine.shell.observation.reporting import LOG
from engine.text import messages
from engine.wire.bulk import AddRun
from engine.wire.encode import Out, encode

#: A client's turn, in microseconds, and after how many commands that is looked at.
_TURN_US = 2000
_LOOK_EVERY = 63
#: Replies that are sent before the turn ends, so that a client who does not read them is noticed.
_FLUSH_BYTES = 256 * 1024

_ADDS = (b"XADD", b"xadd")
_INTERNAL_ERROR = CommandError(messages.INTERNAL_ERROR)


class Runner:
    """One core and its clients."""

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        self.core = core
        self.loop = loop
        #: What is to be done once the reply of the present command has been encoded. The list stays the same object.
        self.after_reply: list[Callable[[], None]] = []
        #: Takes the effects of a turn before its replies leave (the log, the replicas).
        self.on_effects: Callable[[Effects], None] | None = None
        #: Everything that is sent goes through it.
        self.gate = Gate(loop)
        self.connections: dict[int, Connection] = {}
        self.bytes_in = 0
        self.bytes_out = 0
        self.accepted = 0
        self.rejected = 0
        self.overruns = {"query": 0, "output": 0}
        self.max_bulk = 0
        self.query_limit = 0
        self.max_clients = 0
        self._limits: dict[bytes, OutputLimit] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self._expiry_at = NEVER
        self._pause: asyncio.TimerHandle | None = None
        self.memory_limit = MemoryLimit(core.config, core.admission, lambda: self.bytes_in)
        for name in ("proto-max-bulk-len", "client-query-buffer-limit", "maxclients", "client-output-buffer-limit"):
            core.config.on_change(name, self._follow)
        self._follow()

    def _follow(self) -> None:
        config = self.core.config
        self.max_bulk = config.integer("proto-max-bulk-len")
        self.query_limit = config.integer("client-query-buffer-limit")
        self.max_clients = config.integer("maxclients")
        self._limits = config.value("client-output-buffer-limit", dict)
        for connection in self.connections.values():
            connection.parser.max_bulk = self.max_bulk

    # -- connections --------------------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """A client has come; the core gets to know it, or it is sent away."""
        core = self.core
        session = core.open_session(now_us())
        connection.session = session
        self.connections[session.id] = connection
        self.accepted += 1
        connection.parser.trusted = session.authenticated
        session.transport_info = lambda: _buffers(connection)
        session.addr, session.laddr, session.fd = _names(connection.transport)
        if len(self.connections) > self.max_clients:
            self.rejected += 1
            connection.fail(messages.MAX_CLIENTS)
        elif is_refused(core.config, core.accounts, connection.transport.get_extra_info("peername")):
            self.rejected += 1
            LOG.warning("client %r refused: protected mode, and no password is set", session.addr)
            connection.fail(messages.PROTECTED_MODE)

    def closed(self, connection: Connection) -> None:
        """A client has gone."""
        if connection.timer is not None:
            connection.timer.cancel()
        connection.commands = []
        connection.backlog.clear()
        self.connections.pop(connection.session.id, None)
        self.core.close_session(connection.session)

    # -- commands -----------------------------------------------------------------------------------------------------

    def run(self, connection: Connection) -> None:
        """Run the connection's commands, as many as may run now, and send their replies."""
        core = self.core
        session = connection.session
        commands = connection.commands
        at = connection.at
        count = len(commands)
        execute = core.execute
        outbox = core.outbox
        after_reply = self.after_reply
        pause = core.pause
        now = now_us()
        began = now
        core.telemetry.measured_ns = now * 1000
        if self.memory_limit.limit:
            self.memory_limit.look(now)
        out: Out = []
        if count - at > 1 and core.databases[session.db].waiting:
            # Those who wait get what one client adds in one turn together, as with a pipeline that is added at once.
            core.serve_later = all(argv[0] in _ADDS for argv in commands)
        while at < count:
            if pause.until and core.admission.is_held_back(session, commands[at], now // 1000):
                connection.held_back = True
                break
            argv = commands[at]
            at += 1
            if session.reply_mode == "skip-next":
                session.reply_mode = "skip"
            try:
                reply = execute(session, argv, now)
            except Exception:  # noqa: BLE001 - one client's mishap is nobody else's, and the log says what it was
                LOG.exception("a command of client %d failed: %r", session.id, argv[:2])
                reply = _INTERNAL_ERROR
            if outbox:
                self.deliver(session, out)
            if reply is BLOCKED:
                self._arm(connection, now)
                break
            if session.reply_mode != "on":
                reply = _muted(session, reply)
            if reply is not NO_REPLY:
                before = len(out)
                try:
                    encode(reply, session.proto, out)
                except Exception:  # noqa: BLE001 - as above
                    LOG.exception("the reply to %r cannot be encoded", argv[:2])
                    del out[before:]
                    encode(_INTERNAL_ERROR, session.proto, out)
            if after_reply:
                self._do_after_reply()
            if session.close_after_reply or session.close_requested:
                at = count
                break
            if type(reply) is CommandError and argv[0].lower() in (b"post", b"host:"):
                # A browser that was made to talk to us: what follows is not the user's.
                LOG.warning("a request of HTTP from %r, connection closed", session.addr)
                session.close_requested = True
                out.clear()
                at = count
                break
            if not at & _LOOK_EVERY and at < count:
                if sum(map(len, out)) > _FLUSH_BYTES:
                    self._flush(connection, out)
                    out = []
                if connection.slow:
                    break
                now_again = now_us()
                if now_again - began > _TURN_US:
                    connection.yield_turn()
                    break
        if core.serve_later:
            core.serve_later = False
            core.blocked.serve()
            if outbox:
                self.deliver(session, out)
        connection.at = at
        if at == count:
            connection.commands = []
            connection.at = 0
        self._flush(connection, out)
        if core.changes.next_expiry != self._expiry_at:
            self._arm_expiry()
        if session.close_after_reply or session.close_requested:
            connection.close()

    def run_adds(self, connection: Connection, run: AddRun) -> bool:
        """Run a pipeline of XADDs at once and send its replies; False where it has to go command by command."""
        core, session = self.core, connection.session
        if core.pause.until or session.reply_mode != "on":
            return False
        now = now_us()
        core.telemetry.measured_ns = now * 1000
        if self.memory_limit.limit:
            self.memory_limit.look(now)
        replies = core.execute_run(session, run, now)
        if replies is None:
            return False
        if core.outbox:
            self.deliver()
        if self.after_reply:
            self._do_after_reply()
        self._flush(connection, [*replies])
        if core.changes.next_expiry != self._expiry_at:
            self._arm_expiry()
        return True

    def _flush(self, connection: Connection, out: Out) -> None:
        if self.core.changes.effects:
            self._flush_effects()
        if out:
            connection.send(out)

    def deliver(self, caller: Session | None = None, out: Out | None = None) -> None:
        """Send what the core has for others; what it has for the ``caller`` goes to ``out``, before his reply."""
        outbox = self.core.outbox
        # What others are told of must be in the log before they hear of it.
        self._flush_effects()
        while outbox:
            items = outbox[:]
            outbox.clear()
            parts: dict[int, Out] = {}
            for session, reply in items:
                if session is caller and out is not None:
                    encode(reply, session.proto, out)
                elif session.reply_mode == "on" or isinstance(reply, Push):
                    encode(reply, session.proto, parts.setdefault(session.id, []))
            for session_id, pieces in parts.items():
                connection = self.connections.get(session_id)
                if connection is not None:
                    connection.send(pieces)
            for session, _ in items:
                if session is not caller and session.waiter is None:
                    self._unblocked(session)

    def _unblocked(self, session: Session) -> None:
        connection = self.connections.get(session.id)
        if connection is None:
            return
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None
        if connection.commands or connection.backlog or not connection.parser.at_boundary:
            connection.yield_turn()

    def _do_after_reply(self) -> None:
        """What commands have asked for that must not happen while they run."""
        work = self.after_reply[:]
        self.after_reply.clear()
        for one in work:
            one()

    def abort(self, session: Session) -> None:
        """Cut a client off."""
        connection = self.connections.get(session.id)
        if connection is not None:
            connection.transport.abort()

    # -- timers -------------------------------------------------------------------------------------------------------

    def _arm(self, connection: Connection, now: int) -> None:
        waiter = connection.session.waiter
        at = waiter.wake_at if waiter is not None else None
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None
        if at is not None:
            connection.timer = self.loop.call_later(max(at * 1000 - now, 0) / 1e6, self._wake, connection)

    def follow_waiter(self, session: Session) -> None:
        """The time at which a blocked client is to be woken has changed."""
        connection = self.connections.get(session.id)
        if connection is not None:
            self._arm(connection, now_us())

    def _wake(self, connection: Connection) -> None:
        connection.timer = None
        session = connection.session
        waiter = session.waiter
        if waiter is None or waiter.wake_at is None:
            return
        now = now_us()
        if now // 1000 >= waiter.wake_at:
            self.core.telemetry.measured_ns = now * 1000
            self.core.wake(session, now)
            self.settle()
        if session.waiter is not None:
            self._arm(connection, now)

    def settle(self) -> None:
        """Whatever the core did outside a client's turn is told to those whom it concerns."""
        self._flush_effects()
        if self.core.outbox:
            self.deliver()
        if self.after_reply:
            self._do_after_reply()
        if self.core.changes.next_expiry != self._expiry_at:
            self._arm_expiry()

    def _flush_effects(self) -> None:
        if not self.core.changes.effects:
            return
        effects = self.core.changes.effects[:]
        self.core.changes.effects.clear()
        if self.on_effects is not None:
            self.on_effects(effects)

    def _arm_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self._expiry_at = self.core.changes.next_expiry
        if self._expiry_at != NEVER:
            # A moment is waited for at the most once in a millisecond, and not beyond an hour, where clocks may be set.
            delay = min(max(self._expiry_at * 1000 - now_us(), 1000), 3_600_000_000)
            self._expiry = self.loop.call_later(delay / 1e6, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        self._expiry_at = NEVER
        self.core.expire_due(now_us())
        self.settle()
        if self._expiry is None:
            self._arm_expiry()

    # -- CLIENT PAUSE -------------------------------------------------------------------------------------------------

    def follow_pause(self) -> None:
        """CLIENT PAUSE or UNPAUSE was called: the end is another one."""
        if self._pause is not None:
            self._pause.cancel()
        until = self.core.pause.until
        delay = max(until * 1000 - now_us(), 0) if until else 0
        self._pause = self.loop.call_later(delay / 1e6, self._end_pause)

    def _end_pause(self) -> None:
        self._pause = None
        if self.core.pause.until > now_us() // 1000:
            self.follow_pause()
            return
        self.core.pause.end()
        for connection in list(self.connections.values()):
            if connection.held_back:
                connection.held_back = False
                connection.yield_turn()

    # -- limits -------------------------------------------------------------------------------------------------------

    def check_output(self, connection: Connection) -> None:
        """Drop a client that lets too much of what it is sent pile up."""
        session = connection.session
        kind = b"pubsub" if session.channels or session.patterns else b"normal"
        hard, soft, seconds = self._limits[kind]
        size = connection.transport.get_write_buffer_size()
        over = bool(hard) and size >= hard
        if soft and size >= soft:
            now = now_us() // 1000
            if not connection.over_soft_since:
                connection.over_soft_since = now
            over = over or now - connection.over_soft_since >= seconds * 1000
        else:
            connection.over_soft_since = 0
        if over:
            self.overruns["output"] += 1
            LOG.warning("client %d (%r) dropped: %d bytes of replies not read", session.id, session.addr, size)
            connection.transport.abort()

    def report_overrun(self, connection: Connection) -> None:
        """Log a client that sent more ahead than it may."""
        self.overruns["query"] += 1
        session = connection.session
        LOG.warning("client %d (%r) dropped: more than client-query-buffer-limit waits", session.id, session.addr)

    def tick(self) -> None:
        """Once a second: what depends on nothing happening."""
        self.core.tick(now_us())
        now = self.core.changes.now
        limit = self.core.config.integer("timeout") * 1000
        for connection in list(self.connections.values()):
            session = connection.session
            if connection.slow:
                self.check_output(connection)
            idle = now - session.last_ms
            waits = session.waiter or session.channels or session.patterns or session.monitor
            if limit and idle > limit and not waits:
                connection.transport.close()


def _muted(session: Session, reply: Reply) -> Reply:
    """What is left of a reply under CLIENT REPLY."""
    if session.reply_mode == "skip":
        session.reply_mode = "on"
        return NO_REPLY
    return NO_REPLY if session.reply_mode == "off" else reply


def _buffers(connection: Connection) -> dict[bytes, int]:
    transport = connection.transport
    pending = transport.get_write_buffer_size() + connection.held_size
    held = connection.parser.buffered + connection.backlog_size
    return {
        b"qbuf": held,
        b"qbuf-free": 0,
        b"obl": 0,
        b"oll": int(pending > 0),
        b"omem": pending,
        b"held-back": int(connection.held_back),
    }


def _names(transport: asyncio.Transport) -> tuple[bytes, bytes, int]:
    """The client's address, ours, and the descriptor, as CLIENT LIST shows them."""
    sock = transport.get_extra_info("socket")
    peer, here = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    fd = sock.fileno() if sock is not None else -1
    if isinstance(peer, tuple) and isinstance(here, tuple):
        return _address(peer), _address(here), fd
    path = here if isinstance(here, str) else here.decode() if isinstance(here, bytes) else ""
    return f"{path}:0".encode(), f"{path}:0".encode(), fd


def _address(name: Iterable[Any]) -> bytes:
    host, port, *_ = name
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()
