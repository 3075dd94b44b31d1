"""Runs client commands on the core and delivers their results.

The core's outbox is emptied after each command, so that woken clients and subscribers receive their messages in the
same event-loop iteration and in order. Timers are in `engine.shell.network.timers`.

The clock is read once when a client's commands start to run. They run until all are done or the next one must wait. It
waits, for example, if the client is blocked, does not read its replies, or has used up its share of the iteration. The
replies of these commands are sent together, unless they are long. A long command may run in steps, one per iteration.
The client's next command waits for the last step. So do commands of other clients that name a key of the long command
(`engine.core.environment.divided_commands`); afterwards they continue in the order of their arrival.

`engine.shell.network.delivery` delivers the results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.environment.failures import FatalError
from engine.core.keyspace.changes import NEVER
from engine.core.protocol.replies import BLOCKED, NO_REPLY, CommandError, Pages, Reply, Steps
from engine.shell.clock import now_ns, now_us
from engine.shell.durability.disk import DiskDurability
from engine.shell.housekeeping.allocator import give_back
from engine.shell.housekeeping.memory_limit import MemoryLimit
from engine.shell.network.connections.connection import Connection, shown
from engine.shell.network.connections.evictions import ClientMemory, IdleClients
from engine.shell.network.connections.limits import Limits
from engine.shell.network.connections.reply_batch import ReplyBatch
from engine.shell.network.delivery import Delivery, encode_or_error, replace_unencodable
from engine.shell.network.protection import is_refused
from engine.shell.network.timers import Timers
from engine.shell.observation.log_lines import LOG, report_fatal
from engine.shell.observation.process_facts import Traffic
from engine.shell.observation.watchdog import Watchdog
from engine.shell.tls import common_name
from engine.text import messages
from engine.wire.bulk import AddRun
from engine.wire.encode import RESP2, RESP3, Out, encode, pages_of

#: A client's share of an event-loop iteration, in microseconds.
_SHARE_US = 2000
#: Mask for the number of commands that have run: the share is checked after every 64 commands.
_CHECK_EVERY = 63
#: Bytes of replies above which they are sent before all commands have run, to notice clients that do not read them.
_FLUSH_BYTES = 256 * 1024

_ADDS = (b"XADD", b"xadd")
#: Types of replies that need more than encoding.
_SPECIAL = frozenset({type(BLOCKED), Steps, Pages})


class Runner:
    """One core and its clients. ``disk`` receives the effects of their commands."""

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop, disk: DiskDurability) -> None:
        self.core = core
        core.allow_steps()
        self.loop = loop
        #: Batch through which all replies pass.
        self.replies = ReplyBatch(loop, disk.settle_iteration)
        self.connections: dict[int, Connection] = {}
        #: Clients whose next command waits for one that runs in steps, in order -> the latter; None: it has ended.
        self._waiting: dict[Connection, Steps | None] = {}
        self.delivery = Delivery(core, disk, self.replies, self.connections, self.fail)
        self.traffic = Traffic()
        self.limits = Limits(core.config)
        self.limits.on_change = self._follow_limits
        self.watchdog = Watchdog(core.telemetry, loop)
        self.timers = Timers(core, loop, self.connections, self.settle, self.fail, self.watchdog)
        #: Whether `fail` was called: no more commands run, and ``on_failure`` ends the process.
        self.failed = False
        self.on_failure: Callable[[], None] = lambda: None
        self.memory_limit = MemoryLimit(
            core.config, core.admission, lambda: self.traffic.bytes_in, self.give_back_memory
        )
        self.client_memory = ClientMemory(core.config, self.connections, self.traffic)
        self.idle_clients = IdleClients(core.config, self.connections)

    def give_back_memory(self) -> None:
        """Clear the cache of the streams, and return unused memory to the system."""
        self.core.streams.storage.cache.clear()
        give_back()

    def _follow_limits(self) -> None:
        for connection in self.connections.values():
            connection.parser.max_bulk = self.limits.max_bulk

    # -- connections --------------------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """Register a new client's session, or reject the client."""
        core = self.core
        now = now_us()
        session = core.open_session(now)
        connection.session = session
        self.connections[session.id] = connection
        self.traffic.accepted += 1
        connection.parser.trusted = session.authenticated
        session.buffers = connection.buffers
        session.addr, session.laddr, session.fd = shown(connection.transport)
        others = self.traffic.handshaking
        if connection.transport.get_extra_info("sslcontext") is not None:
            # Do not count the client twice: its handshake is still counted.
            others -= 1
        if len(self.connections) + others > self.limits.max_clients:
            self.traffic.rejected += 1
            connection.fail(messages.MAX_CLIENTS)
        elif is_refused(core.config, core.accounts, connection.transport.get_extra_info("peername")):
            self.traffic.rejected += 1
            LOG.warning("client %r rejected: protected mode, and no password is set", session.addr)
            connection.fail(messages.PROTECTED_MODE)
        elif core.config.text("tls-auth-clients-user") == b"CN":
            name = common_name(connection.transport.get_extra_info("peercert") or {})
            if name:
                core.accounts.log_in_by_certificate(session, name, now // 1000)
                connection.parser.trusted = session.authenticated

    def is_full(self) -> bool:
        """Return whether ``maxclients`` is reached, counting clients in a TLS handshake."""
        return len(self.connections) + self.traffic.handshaking >= self.limits.max_clients

    def closed(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self.connections.pop(connection.session.id, None)
        self.core.close_session(connection.session)

    def held_back(self) -> int:
        """Return the number of clients whose next command a pause holds back."""
        return sum(connection.held_back for connection in self.connections.values())

    # -- commands -----------------------------------------------------------------------------------------------------

    def run(self, connection: Connection, commands: list[list[bytes]], first: int = 0) -> None:
        """Run the connection's commands from ``first`` on, as many as may run now, and send their replies.

        The others are kept in the connection.
        """
        # A single function, because every command passes through it, and a call costs a hundredth of a request.
        core, delivery, session = self.core, self.delivery, connection.session
        outbox, pause, after_reply, divided = core.outbox, core.pause, delivery.after_reply, core.divided.running
        at, count, made = first, len(commands), 0
        now = self._prepare_batch()
        if count - at > 1 and core.databases[session.db].waiting:
            # Serve waiting clients after all XADDs of this client, as after a pipeline that is added in one operation.
            core.serve_later = all(argv[0] in _ADDS for argv in commands)
        out: Out = []
        pages: Pages | None = None
        while at < count:
            if (pause.until or divided) and self._must_wait_first(connection, commands[at], now):
                break
            argv = commands[at]
            at += 1
            if session.reply_mode == "skip-next":
                session.reply_mode = "skip"
            try:
                reply = core.execute(session, argv, now)
            except (FatalError, Exception) as error:  # noqa: BLE001 - no command may run after it
                self._fail_within(connection, out, error)
                return
            for_caller = delivery.send_outbox(session) if outbox else ()
            before = len(out)
            kind = type(reply)
            if kind in _SPECIAL or session.reply_mode != "on":
                if reply is BLOCKED or kind is Steps:
                    _append(for_caller, session, out)
                    self._suspend(connection, reply, now)
                    break
                if session.reply_mode != "on":
                    reply = _filter_reply(session, reply)
                if type(reply) is Pages:
                    pages = reply
                elif reply is not NO_REPLY:
                    encode_or_error(reply, session, out)
            else:
                try:
                    (RESP3 if session.proto == 3 else RESP2)[kind](reply, out)
                except Exception:  # noqa: BLE001 - the client gets an error
                    replace_unencodable(session, before, out)
            if for_caller:
                _append(for_caller, session, out)
            if after_reply:
                delivery.do_after_reply()
            if pages is not None:
                break
            if (
                session.close_after_reply
                or session.close_requested
                or (kind is CommandError and self._is_http(connection, argv, out))
            ):
                at = count
                break
            if at < count:
                if len(out) - before > 1:
                    made += sum(map(len, out[before:]))
                    if made > _FLUSH_BYTES:
                        made = 0
                        if self._must_wait(connection, out):
                            break
                if not at & _CHECK_EVERY and self._has_used_its_share(connection, out, now):
                    break
        self._finish(connection, out, pages, now, commands, first, at)

    def _must_wait_first(self, connection: Connection, argv: list[bytes], now: int) -> bool:
        """Return whether a pause or a command that runs in steps delays the client's next command. If so, suspend the
        connection.
        """
        core, session = self.core, connection.session
        if core.pause.until and core.admission.is_held_back(session, argv, now // 1000):
            connection.held_back = True
            return True
        holder = core.divided.must_wait(session, argv) if core.divided.running else None
        if holder is None:
            self._waiting.pop(connection, None)
            return False
        # A client that waits again keeps its position.
        self._waiting[connection] = holder
        connection.stepping = True
        connection.adjust_reading()
        return True

    def _release_waiting(self, ended: Steps) -> None:
        """Continue the clients that wait for a command that runs in steps, because it has ended."""
        for connection, holder in self._waiting.items():
            if holder is ended:
                self._waiting[connection] = None
                connection.stepping = False
                connection.yield_to_others()
        if not self.core.divided.running:
            # The others wait for commands that another command has finished.
            self._waiting = {connection: holder for connection, holder in self._waiting.items() if holder is not None}

    def _prepare_batch(self) -> int:
        """Read the clock, in microseconds, and update the limits that are checked before commands run."""
        ns = self.core.telemetry.measured_ns = now_ns()
        now = ns // 1000
        if self.memory_limit.limit:
            self.memory_limit.check(now)
        if self.client_memory.limit:
            self.client_memory.check(now)
        return now

    def _suspend(self, connection: Connection, reply: Reply, now: int) -> None:
        """Suspend the connection, whose command waits for something or runs in steps."""
        if type(reply) is not Steps:
            self.timers.follow(connection, now)
            return
        connection.stepping = True
        connection.adjust_reading()
        self.loop.call_soon(self._step, connection, connection.session, reply)

    def _is_http(self, connection: Connection, argv: list[bytes], out: Out) -> bool:
        """Return whether the refused command is HTTP, as sent by a tricked browser; if so, request that the connection
        is closed.
        """
        if argv[0].lower() not in (b"post", b"host:"):
            return False
        LOG.warning("HTTP request from %r, connection closed", connection.session.addr)
        connection.session.close_requested = True
        out.clear()
        return True

    def _must_wait(self, connection: Connection, out: Out) -> bool:
        """Send long replies before more are made; return whether the client's next command must wait."""
        self.delivery.flush(connection, out[:])
        out.clear()
        if connection.slow:
            return True
        if connection.held_size > _FLUSH_BYTES:
            connection.yield_to_others()
            return True
        return False

    def _has_used_its_share(self, connection: Connection, out: Out, began: int) -> bool:
        """Return whether the client's next command must wait: the client does not read its replies, or has used up its
        share.
        """
        if sum(map(len, out)) > _FLUSH_BYTES:
            self.delivery.flush(connection, out[:])
            out.clear()
        if connection.slow:
            return True
        if now_us() - began > _SHARE_US:
            connection.yield_to_others()
            return True
        return False

    def _finish(
        self,
        connection: Connection,
        out: Out,
        pages: Pages | None,
        began: int,
        commands: list[list[bytes]],
        first: int,
        at: int,
    ) -> None:
        """Serve the clients that wait for added entries, send the replies, and remember where to continue."""
        core, session = self.core, connection.session
        if core.serve_later:
            core.serve_later = False
            try:
                core.blocked.serve()
            except (FatalError, Exception) as error:  # noqa: BLE001 - no command may run after it
                self._fail_within(connection, out, error)
                return
            if core.outbox:
                _append(self.delivery.send_outbox(session), session, out)
        if at < len(commands):
            connection.commands, connection.at = commands, at
        elif connection.commands:
            connection.commands, connection.at = [], 0
        delivery = self.delivery
        if core.changes.effects:
            delivery.flush_effects()
        if out and not delivery.is_over:
            connection.send(out)
        if core.changes.next_expiry != self.timers.expiry_at:
            self.timers.follow_expiry()
        if pages is not None:
            connection.pieces, connection.pinned = pages_of(pages, session.proto), pages.held
            connection.send_piece()
        if core.telemetry.latency_ms:
            self.watchdog.note_work(began, commands[first:at])
        if pages is None and (session.close_after_reply or session.close_requested):
            connection.close()

    def _step(self, connection: Connection, session: Session, steps: Steps) -> None:
        """Run the next step of a client's command, which is completed even if the client has disconnected."""
        if self.failed:
            return
        core, out, now = self.core, list[bytes | memoryview](), now_us()
        core.telemetry.measured_ns = now * 1000
        try:
            reply = core.go_on(session, steps, now)
        except (FatalError, Exception) as error:  # noqa: BLE001 - no command may run after it
            self._fail_within(connection, out, error)
            return
        for_caller = self.delivery.send_outbox(session) if core.outbox else ()
        is_done = reply is not steps
        if is_done and session.reply_mode != "on":
            reply = _filter_reply(session, reply)
        pieces = pages_of(reply, session.proto) if type(reply) is Pages else None
        if is_done and reply is not NO_REPLY and pieces is None:
            encode_or_error(reply, session, out)
        _append(for_caller, session, out)
        self.delivery.flush(connection, out)
        if self.delivery.after_reply:
            self.delivery.do_after_reply()
        if not is_done:
            self.loop.call_soon(self._step, connection, session, steps)
        else:
            self._release_waiting(steps)
            connection.stepping = False
            connection.pieces = pieces
            if type(reply) is Pages:
                connection.pinned = reply.held
            if pieces is None and (session.close_after_reply or session.close_requested):
                connection.close()
            else:
                connection.yield_to_others()
        if core.changes.next_expiry != self.timers.expiry_at:
            self.timers.follow_expiry()
        if core.telemetry.latency_ms:
            self.watchdog.note_work(now, [steps.argv])

    def run_adds(self, connection: Connection, run: AddRun) -> bool:
        """Run a pipeline of XADDs together and send its replies; return False if its commands must run one by one."""
        core, delivery, session = self.core, self.delivery, connection.session
        if core.pause.until or session.reply_mode != "on":
            return False
        if core.divided.running and session.multi is None and core.divided.must_wait_for_run(run):
            return False
        now = self._prepare_batch()
        try:
            replies = core.execute_run(session, run, now)
        except (FatalError, Exception) as error:  # noqa: BLE001 - no command may run after it
            self.fail(error)
            return True
        if replies is None:
            return False
        if core.outbox:
            delivery.send_outbox()
        if delivery.after_reply:
            delivery.do_after_reply()
        if core.changes.effects:
            delivery.flush_effects()
        if not delivery.is_over:
            connection.send(replies)
        if core.changes.next_expiry != self.timers.expiry_at:
            self.timers.follow_expiry()
        if core.telemetry.latency_ms:
            self.watchdog.note_work(now, b"%d * xadd" % run.count)
        return True

    # -- unexpected errors --------------------------------------------------------------------------------------------

    def _fail_within(self, connection: Connection, out: Out, error: BaseException) -> None:
        """Fail as `fail` does, after sending ``out``, the replies to earlier commands."""
        self.core.outbox.clear()
        self.delivery.flush(connection, out)
        self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Stop running commands and end the process, because the data may contain a half-done change.

        Effects of earlier commands are complete, and are logged. The client whose command failed gets an error; other
        clients are disconnected without a reply, as in a crash.
        """
        if self.failed:
            return
        self.failed = True
        report_fatal(error)
        # Hold back the commands of all clients, including new clients.
        self.core.pause.start(0, NEVER, holds_all=True)
        self.timers.stop()
        for connection in self.connections.values():
            connection.held_back = True
        self.core.outbox.clear()
        self.delivery.flush_effects()
        self.on_failure()
        caller = self.connections.get(error.session_id) if isinstance(error, FatalError) else None
        if caller is not None:
            caller.fail(messages.INTERNAL_ERROR)

    # -- clients ------------------------------------------------------------------------------------------------------

    def finish(self, session: Session) -> None:
        """Close a client's connection after sending its replies."""
        connection = self.connections.get(session.id)
        if connection is not None:
            connection.close()

    def abort(self, session: Session) -> None:
        """Disconnect a client immediately."""
        connection = self.connections.get(session.id)
        if connection is not None:
            connection.transport.abort()

    def settle(self) -> None:
        """Deliver the results of core work outside a client's command, for example when a timer wakes a client."""
        self.delivery.flush_effects()
        if self.core.outbox:
            self.delivery.send_outbox()
        if self.delivery.after_reply:
            self.delivery.do_after_reply()
        if self.core.changes.next_expiry != self.timers.expiry_at:
            self.timers.follow_expiry()

    # -- time ---------------------------------------------------------------------------------------------------------

    def _free(self) -> None:
        """Free some of the discarded data; continue in the next event-loop iteration if there is more."""
        began = now_us()
        if self.core.changes.discarded and self.core.changes.free():
            self.loop.call_soon(self._free)
        if self.core.telemetry.latency_ms:
            self.watchdog.note_work(began, b"freeing deleted data")

    def _expire_producers(self) -> None:
        if self.core.tick(now_us()):
            self.loop.call_soon(self._expire_producers)

    def tick(self) -> None:
        """Run the periodic work, once per second."""
        if self.failed:
            return
        self._expire_producers()
        self._free()
        if self.client_memory.limit:
            self.client_memory.check(now_us())
        for connection in list(self.connections.values()):
            if connection.transport.get_write_buffer_size():
                connection.check_output()
        self.idle_clients.check(self.core.changes.now)


def _append(messages: Iterable[Reply], session: Session, out: Out) -> None:
    """Encode the messages that a command sends to its caller after its reply, including replies of SUBSCRIBE."""
    for message in messages:
        encode(message, session.proto, out)


def _filter_reply(session: Session, reply: Reply) -> Reply:
    """Return the reply, or NO_REPLY if CLIENT REPLY suppresses it."""
    if session.reply_mode == "skip":
        session.reply_mode = "on"
        return NO_REPLY
    return NO_REPLY if session.reply_mode == "off" else reply
