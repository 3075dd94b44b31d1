"""From a client's bytes to its replies: the parts of this file are in the order of the work.

1. `Client.data_received` gets bytes. If the client's next command has to wait (`Connection.stopped`), the bytes wait.
2. `Client.read` parses them. Runs of XADDs go to `Runner.run_adds`, other commands to `Runner.run`.
3. The core executes a command (`engine.core.dispatch`), and collects its effects and the messages for other clients.
   These are delivered after each command, so that woken clients and subscribers receive them in the same event-loop
   iteration and in order.
4. `Runner.flush_effects` passes the effects to the log and the replicas, always before anything is sent: an effect must
   be logged before any client sees it. After an unexpected error in the logging of effects, nothing is sent.
5. The replies are sent (`engine.shell.network.connection`). `Client.go_on` continues with the input that had to wait.

The clock is read once when a client's commands start to run. They run until all are done or the next one must wait. It
waits, for example, if the client is blocked, does not read its replies, or has used up its share of the iteration. The
replies of these commands are sent together, unless they are long. A long command may run in steps, one per iteration.
The client's next command waits for the last step. So do commands of other clients that name a key of the long command
(`engine.core.environment.divided_commands`); afterwards they continue in the order of their arrival.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from engine.core.clients.session import Buffers, Session
from engine.core.dispatch import Core, FatalError
from engine.core.keyspace.changes import NEVER
from engine.core.protocol.replies import BLOCKED, NO_REPLY, CommandError, Pages, Push, Reply, Steps
from engine.core.protocol.xadd import XaddRun
from engine.shell.clock import now_ns, now_us
from engine.shell.durability.log import Log
from engine.shell.housekeeping.memory import MemoryLimit, give_back
from engine.shell.network.connection import BEFORE_LOGIN, Connection, Limits, ReplyBatch
from engine.shell.network.timers import Timers
from engine.shell.observation.log_lines import LOG, report_fatal
from engine.shell.observation.process_facts import Traffic
from engine.shell.observation.watchdog import Watchdog
from engine.shell.tls import common_name
from engine.shell.users_file import is_refused
from engine.text import messages
from engine.wire.bulk import Scanner, next_start
from engine.wire.encode import RESP2, RESP3, Out, encode, encoded, pages_of
from engine.wire.parser import RequestParser

INTERNAL_ERROR = CommandError(messages.INTERNAL_ERROR)
#: A client's share of an event-loop iteration, in microseconds.
_SHARE_US = 2000
#: Mask for the number of commands that have run: the share is checked after every 64 commands.
_CHECK_EVERY = 63
#: Bytes of replies above which they are sent before all commands have run, to notice clients that do not read them.
_FLUSH_BYTES = 256 * 1024

_ADDS = (b"XADD", b"xadd")
#: Offset before which the second command of an input cannot have its name.
_SECOND_NAME = 20
#: Number of bytes to parse per event-loop iteration of a command with thousands of arguments.
_LONG_INPUT = 64 * 1024
#: Number of bytes before login to parse per event-loop iteration, and at most one command.
_LOGIN_INPUT = 1024
#: Number of bytes received at once from which on other clients run before more is read from the client.
_LARGE_INPUT = 128 * 1024
#: Number of commands in a row that start no pipeline of XADDs, after which the rest of the input is not searched.
_MISSES = 3
#: Types of replies that need more than encoding.
_SPECIAL = frozenset({type(BLOCKED), Steps, Pages})


class Client(Connection):
    """A connection whose commands ``runner`` runs. ``keepalive``: the directive ``tcp-keepalive``.

    Invariant: until a client is disconnected, all its input is kept, and its commands run in the order of arrival.
    Input that cannot run yet waits in three buffers, oldest first: ``commands`` from ``at`` on, the parser's bytes, and
    ``unparsed``. A new code path must keep this order.
    """

    __slots__ = (
        "_keepalive",
        "at",
        "before_login",
        "commands",
        "parser",
        "received",
        "runner",
        "scanner",
        "unparsed",
        "unparsed_size",
    )

    def __init__(self, runner: Runner, keepalive: int = 0) -> None:
        super().__init__(runner.loop, runner.replies, runner.limits, runner.traffic)
        self.runner = runner
        self._keepalive = keepalive
        self.parser = RequestParser(self.limits.max_bulk)
        #: Parsed commands; those before ``at`` have run.
        self.commands: list[list[bytes]] = []
        self.at = 0
        #: Bytes received while commands could not run.
        self.unparsed: deque[bytes] = deque()
        self.unparsed_size = 0
        #: Recognises this client's pipelines of XADDs.
        self.scanner = Scanner()
        #: Bytes of commands and replies before login.
        self.before_login = 0
        #: Total bytes received.
        self.received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._keepalive:
                _keep_alive(sock, self._keepalive)
        super().connection_made(transport)
        self.runner.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.runner.closed(self)
        super().connection_lost(exc)
        self.parser = RequestParser(0)
        self.scanner = Scanner()
        self.commands, self.at = [], 0
        self.unparsed.clear()
        self.unparsed_size = 0

    def buffers(self) -> Buffers:
        """Return the sizes of the client's buffers, for CLIENT LIST."""
        replies = self.transport.get_write_buffer_size() + self.unsent_size + self.pinned + sum(map(len, self.behind))
        waiting = self.parser.buffered + self.unparsed_size
        return Buffers(waiting, replies, self.held_back, self.received, self.sent)

    def data_received(self, data: bytes) -> None:
        size = len(data)
        self.traffic.bytes_in += size
        self.received += size
        if self.stopped:
            self.unparsed.append(data)
            self.unparsed_size += size
            self.check_input()
            return
        self.read(data)
        if size >= _LARGE_INPUT:
            # Let other clients run first: more data may be ready, and would be received in this same iteration.
            self._yield_if_running()

    def read(self, data: bytes) -> None:
        """Run the commands that ``data`` completes. Do not call this while earlier input waits.

        Input with an XADD after its first command is searched for pipelines of XADDs, which run faster than single
        commands.
        """
        parser, size = self.parser, len(data)
        if not parser.trusted:
            self._read_before_login(data)
            return
        if size > _LONG_INPUT and parser.takes_long(data):
            # The rest is parsed in the next event-loop iteration.
            self._put_back(data[_LONG_INPUT:])
            self.read(data[:_LONG_INPUT])
            self._yield_if_running()
            return
        if data.find(b"XADD", _SECOND_NAME) > 0:
            data = self._read_runs(data)
            if not data and parser.at_boundary and parser.error is None:
                return
            if self.stopped or self.transport.is_closing():
                if data:
                    self._put_back(data)
                return
        commands = parser.parse(data)
        if commands:
            self.runner.run(self, commands)
            parser.trusted = self.session.authenticated
        if parser.at_boundary and parser.error is None:
            return
        if self.transport.is_closing() or self.stopped:
            return
        if parser.error is not None:
            self.fail(parser.error)
            return
        self.check_input()

    def _read_before_login(self, data: bytes) -> None:
        """Run the first command that ``data`` completes; the rest waits for the next event-loop iteration."""
        parser, sent = self.parser, self.sent
        if len(data) > _LOGIN_INPUT:
            self._put_back(data[_LOGIN_INPUT:])
            data = data[:_LOGIN_INPUT]
        commands, rest = parser.parse_one(data)
        if rest:
            self._put_back(rest)
        if commands:
            self.runner.run(self, commands)
            parser.trusted = self.session.authenticated
        self.before_login += len(data) - len(rest) + self.sent - sent
        self.check_input()
        if self.transport.is_closing() or self.stopped:
            return
        if parser.error is not None:
            self.fail(parser.error)
        elif self.unparsed:
            self.yield_to_others()

    def _put_back(self, data: bytes) -> None:
        self.unparsed.appendleft(data)
        self.unparsed_size += len(data)

    def _read_runs(self, data: bytes) -> bytes:
        """Run the pipelines of XADDs in ``data``, and the commands before and between them.

        Return the rest of the data. The caller must parse it, or keep it until commands may run again.
        """
        parser = self.parser
        misses = 0
        while data and misses < _MISSES and parser.error is None:
            if parser.at_boundary:
                run = self.scanner.scan(data)
                if run is not None and self.runner.run_adds(self, run):
                    data = data[run.end :]
                    misses = 0
                    continue
                misses += 1
                at = next_start(data)
                if not at:
                    break
                commands, data = parser.parse(data[:at]), data[at:]
            else:
                commands, data = parser.parse_one(data)
            self.runner.run(self, commands)
            if self.stopped or self.transport.is_closing():
                break
        return data

    def check_input(self) -> None:
        """Disconnect the client if too much of its input is waiting, or it has sent too much without login."""
        session = self.session
        if self.unparsed_size + self.parser.buffered > self.limits.query(session):
            why = "unprocessed input above client-query-buffer-limit"
        elif self.before_login > BEFORE_LOGIN and not session.authenticated:
            why = "too many commands without login"
        else:
            return
        self.traffic.query_overruns += 1
        LOG.warning("client %d (%r) dropped: %s", session.id, session.addr, why)
        self.transport.abort()

    def go_on(self) -> None:
        """Run the waiting input until a command has to wait."""
        self.yielding = False
        while not self.stopped and not self.transport.is_closing():
            if self.pieces is not None:
                self.send_piece()
            elif self.at < len(self.commands):
                self.runner.run(self, self.commands, self.at)
                self.parser.trusted = self.session.authenticated
            elif self.parser.error is not None:
                self.fail(self.parser.error)
            elif self.unparsed:
                data = self.unparsed.popleft()
                self.unparsed_size -= len(data)
                self.read(data)
                if self.unparsed and not self.stopped:
                    # One chunk per iteration, as when chunks arrive from the socket.
                    self.yield_to_others()
            else:
                break
        self.adjust_reading()

    def _yield_if_running(self) -> None:
        if not self.stopped and not self.transport.is_closing():
            self.yield_to_others()

    def continue_after_wait(self) -> None:
        """Continue with the waiting input, if any: the client's blocking command has ended."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.commands or self.unparsed or not self.parser.at_boundary:
            self.yield_to_others()


class Runner:
    """One core and its clients. ``log`` receives the effects of their commands."""

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop, log: Log) -> None:
        self.core = core
        core.allow_steps()
        self.loop = loop
        #: Batch through which all replies pass.
        self.replies = ReplyBatch(loop, log.flush)
        self.connections: dict[int, Client] = {}
        #: Clients whose next command waits for one that runs in steps, in order -> the latter; None: it has ended.
        self.waiting: dict[Client, Steps | None] = {}
        self._log = log
        #: Whether effects could not be passed on, after which nothing may be sent.
        self.is_over = False
        #: Work to do after the reply of the current command has been encoded. The list is never replaced.
        self.after_reply: list[Callable[[], None]] = []
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

    def give_back_memory(self) -> None:
        """Clear the cache of the streams, and return unused memory to the system."""
        self.core.streams.storage.cache.clear()
        give_back()

    def _follow_limits(self) -> None:
        for connection in self.connections.values():
            connection.parser.max_bulk = self.limits.max_bulk

    # -- connections --------------------------------------------------------------------------------------------------

    def opened(self, connection: Client) -> None:
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
            connection.fail(b"ERR max number of clients reached")
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

    def closed(self, connection: Client) -> None:
        """Remove a closed connection."""
        self.connections.pop(connection.session.id, None)
        self.core.close_session(connection.session)

    def held_back(self) -> int:
        """Return the number of clients whose next command a pause holds back."""
        return sum(connection.held_back for connection in self.connections.values())

    # -- commands -----------------------------------------------------------------------------------------------------

    def run(self, connection: Client, commands: list[list[bytes]], first: int = 0) -> None:
        """Run the connection's commands from ``first`` on, as many as may run now, and send their replies.

        The others are kept in the connection.
        """
        # A single function, because every command passes through it, and a call costs a hundredth of a request.
        core, session = self.core, connection.session
        outbox, pause, after_reply, divided = core.outbox, core.pause, self.after_reply, core.divided.running
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
            # Run the command, and deliver messages to other clients.
            argv = commands[at]
            at += 1
            if session.reply_mode == "skip-next":
                session.reply_mode = "skip"
            try:
                reply = core.execute(session, argv, now)
            except (FatalError, Exception) as error:  # noqa: BLE001 - no command may run after it
                self._fail_within(connection, out, error)
                return
            for_caller = self.send_outbox(session) if outbox else ()
            # Encode the reply.
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
                self.do_after_reply()
            # Stop after a long reply or a request to close, or if other clients are due.
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

    def _must_wait_first(self, connection: Client, argv: list[bytes], now: int) -> bool:
        """Return whether a pause or a command that runs in steps delays the client's next command. If so, suspend the
        connection.
        """
        core, session = self.core, connection.session
        if core.pause.until and core.admission.is_held_back(session, argv, now // 1000):
            connection.held_back = True
            return True
        holder = core.divided.must_wait(session, argv) if core.divided.running else None
        if holder is None:
            self.waiting.pop(connection, None)
            return False
        # A client that waits again keeps its position.
        self.waiting[connection] = holder
        connection.stepping = True
        connection.adjust_reading()
        return True

    def _release_waiting(self, ended: Steps) -> None:
        """Continue the clients that wait for a command that runs in steps, because it has ended."""
        for connection, holder in self.waiting.items():
            if holder is ended:
                self.waiting[connection] = None
                connection.stepping = False
                connection.yield_to_others()
        if not self.core.divided.running:
            # The others wait for commands that another command has finished.
            self.waiting = {connection: holder for connection, holder in self.waiting.items() if holder is not None}

    def _prepare_batch(self) -> int:
        """Read the clock, in microseconds, and update the limits that are checked before commands run."""
        ns = self.core.telemetry.measured_ns = now_ns()
        now = ns // 1000
        if self.memory_limit.limit:
            self.memory_limit.check(now)
        return now

    def _suspend(self, connection: Client, reply: Reply, now: int) -> None:
        """Suspend the connection, whose command waits for something or runs in steps."""
        if type(reply) is not Steps:
            self.timers.follow(connection, now)
            return
        connection.stepping = True
        connection.adjust_reading()
        self.loop.call_soon(self._step, connection, connection.session, reply)

    def _is_http(self, connection: Client, argv: list[bytes], out: Out) -> bool:
        """Return whether the refused command is HTTP, as sent by a tricked browser; if so, request that the connection
        is closed.
        """
        if argv[0].lower() not in (b"post", b"host:"):
            return False
        LOG.warning("HTTP request from %r, connection closed", connection.session.addr)
        connection.session.close_requested = True
        out.clear()
        return True

    def _must_wait(self, connection: Client, out: Out) -> bool:
        """Send long replies before more are made; return whether the client's next command must wait."""
        self.flush(connection, out[:])
        out.clear()
        if connection.slow:
            return True
        if connection.unsent_size > _FLUSH_BYTES:
            connection.yield_to_others()
            return True
        return False

    def _has_used_its_share(self, connection: Client, out: Out, began: int) -> bool:
        """Return whether the client's next command must wait: the client does not read its replies, or has used up its
        share.
        """
        if sum(map(len, out)) > _FLUSH_BYTES:
            self.flush(connection, out[:])
            out.clear()
        if connection.slow:
            return True
        if now_us() - began > _SHARE_US:
            connection.yield_to_others()
            return True
        return False

    def _finish(
        self,
        connection: Client,
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
                core.serve()
            except (FatalError, Exception) as error:  # noqa: BLE001 - no command may run after it
                self._fail_within(connection, out, error)
                return
            if core.outbox:
                _append(self.send_outbox(session), session, out)
        if at < len(commands):
            connection.commands, connection.at = commands, at
        elif connection.commands:
            connection.commands, connection.at = [], 0
        if core.changes.effects:
            self.flush_effects()
        if out and not self.is_over:
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

    def _step(self, connection: Client, session: Session, steps: Steps) -> None:
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
        for_caller = self.send_outbox(session) if core.outbox else ()
        is_done = reply is not steps
        if reply is BLOCKED:
            self.timers.follow(connection, now)
        elif is_done and session.reply_mode != "on":
            reply = _filter_reply(session, reply)
        pieces = pages_of(reply, session.proto) if type(reply) is Pages else None
        if is_done and reply not in (NO_REPLY, BLOCKED) and pieces is None:
            encode_or_error(reply, session, out)
        _append(for_caller, session, out)
        self.flush(connection, out)
        if self.after_reply:
            self.do_after_reply()
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

    def run_adds(self, connection: Client, run: XaddRun) -> bool:
        """Run a pipeline of XADDs together and send its replies; return False if its commands must run one by one."""
        core, session = self.core, connection.session
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
            self.send_outbox()
        if self.after_reply:
            self.do_after_reply()
        self.flush(connection, replies)
        if core.changes.next_expiry != self.timers.expiry_at:
            self.timers.follow_expiry()
        if core.telemetry.latency_ms:
            self.watchdog.note_work(now, b"%d * xadd" % run.count)
        return True

    # -- delivery -----------------------------------------------------------------------------------------------------

    def flush(self, connection: Connection, out: Out) -> None:
        """Pass on the effects, then send the replies of their commands."""
        if self.core.changes.effects:
            self.flush_effects()
        if out and not self.is_over:
            connection.send(out)

    def flush_effects(self) -> None:
        """Pass the collected effects to the log and the replicas.

        If replies must wait for an fsync, or most of them wait anyway, one write at the end of the iteration serves all
        its commands. After a failed write they wait, too: if another attempt fails, their connections are closed.
        """
        changes = self.core.changes
        if not changes.effects:
            return
        effects = changes.effects[:]
        changes.effects.clear()
        try:
            if self._log.append(effects) or not (self.replies.hold_if_crowded() or self._log.flush()):
                self.replies.hold()
        except Exception as error:  # noqa: BLE001 - the log and the data may differ after this error
            self.is_over = True
            self.fail(error)

    def send_outbox(self, caller: Session | None = None) -> list[Reply]:
        """Send the core's messages to their clients.

        Return the messages for the ``caller``, to be sent after its reply.
        """
        replies: list[Reply] = []
        outbox = self.core.outbox
        self.flush_effects()
        if self.is_over:
            outbox.clear()
        while outbox:
            items = outbox[:]
            outbox.clear()
            parts: dict[int, Out] = {}
            for session, reply in items:
                if session is caller:
                    replies.append(reply)
                elif session.reply_mode == "on" or isinstance(reply, Push):
                    encode_or_error(reply, session, parts.setdefault(session.id, []))
            for session_id, pieces in parts.items():
                connection = self.connections.get(session_id)
                if connection is not None:
                    connection.send(pieces)
            for session, _ in items:
                if session is not caller and session.waiter is None:
                    if session.reply_mode == "skip":
                        # The reply to be skipped was that of the blocking command.
                        session.reply_mode = "on"
                    connection = self.connections.get(session.id)
                    if connection is not None:
                        connection.continue_after_wait()
        return replies

    def do_after_reply(self) -> None:
        """Run the callbacks that commands have requested to run after their reply."""
        work = self.after_reply[:]
        self.after_reply.clear()
        for callback in work:
            try:
                callback()
            except Exception:  # noqa: BLE001 - the other callbacks are independent of this one
                LOG.exception("unexpected error in the work after a reply")

    # -- unexpected errors --------------------------------------------------------------------------------------------

    def _fail_within(self, connection: Client, out: Out, error: BaseException) -> None:
        """Fail as `fail` does, after sending ``out``, the replies to earlier commands."""
        self.core.outbox.clear()
        self.flush(connection, out)
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
        self.flush_effects()
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
        self.flush_effects()
        if self.core.outbox:
            self.send_outbox()
        if self.after_reply:
            self.do_after_reply()
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
        for connection in list(self.connections.values()):
            if connection.transport.get_write_buffer_size():
                connection.check_output()
        self.drop_idle(self.core.changes.now)

    def drop_idle(self, now: int) -> None:
        """Disconnect the clients that have sent nothing for ``timeout`` seconds at ``now``, in milliseconds. Replicas,
        and clients that wait for a reply or for messages, or are reading a reply, stay connected.
        """
        limit = self.core.config.integer("timeout") * 1000
        for connection in list(self.connections.values()) if limit else ():
            session = connection.session
            if connection.has_taken():
                session.last_ms = now
            listens = session.waiter or session.subscriptions or session.monitor or session.is_replica
            if now - session.last_ms > limit and not (listens or connection.held_back or connection.stepping):
                # Not close(), which would wait until the client has read its replies.
                connection.transport.abort()


def encode_or_error(reply: Reply, session: Session, out: Out) -> None:
    """Encode a reply. If the encoding fails, encode an error instead: the client must get one reply per command."""
    before = len(out)
    try:
        encode(reply, session.proto, out)
    except Exception:  # noqa: BLE001 - the client gets an error
        replace_unencodable(session, before, out)


def replace_unencodable(session: Session, before: int, out: Out) -> None:
    """Replace the encoded part of a reply, ``out[before:]``, with an error: its encoding has just failed."""
    LOG.exception("the reply to client %d cannot be encoded", session.id)
    out[before:] = [encoded(INTERNAL_ERROR)]


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


def shown(transport: asyncio.Transport) -> tuple[bytes, bytes, int]:
    """Return the client's address, the server's address, and the socket's descriptor (-1 without a socket)."""
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


def _keep_alive(sock: Any, seconds: int) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(seconds // 3, 1))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
