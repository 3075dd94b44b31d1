"""One client's socket: parsing of commands, sending of replies, and flow control in both directions.

A connection owns its buffers. It also records why the client's commands do not run: a blocking command, a command that
runs in steps, a pause (such as CLIENT PAUSE), unread replies, or a used-up share of this event-loop iteration. It does
not depend on what a command does: a `CommandRunner` runs the commands, and sends their replies through the connection.

A long reply is sent in pieces, one per event-loop iteration, so that other clients are served in between. The client's
next command, and everything else sent to the client, waits for the last piece.

While the client has too many unread bytes, neither the next piece is made nor the next command run, but the client is
still read. So a client may send any number of commands before it reads a reply: what waits is its input, which is
usually smaller than the replies. ``client-query-buffer-limit`` limits it.

The module is long because input, output and their pauses share all of their state.

Invariant: until a client is disconnected, all its input is kept, and its commands run in the order of arrival. Input
that cannot run yet waits in three buffers, oldest first: ``commands`` from ``at`` on, the parser's bytes, and
``backlog``. A new code path must keep this order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, cast

from engine.core.clients.session import Buffers, Session
from engine.core.protocol.replies import CommandError
from engine.shell.clock import now_us
from engine.shell.network.connections.limits import BEFORE_LOGIN, Limits
from engine.shell.network.connections.reply_batch import ReplyBatch
from engine.shell.observation.log_lines import LOG
from engine.shell.observation.process_facts import Traffic
from engine.wire.bulk import AddRun, Scanner, next_start
from engine.wire.encode import LONG, Out, encoded
from engine.wire.parser import RequestParser


class _Gone(asyncio.Transport):
    """Transport of a closed connection, for code that still refers to the connection."""

    def is_closing(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: it is already closed."""

    def abort(self) -> None:
        """Do nothing: it is already closed."""

    def get_write_buffer_size(self) -> int:
        return 0


#: Shared by all closed connections.
GONE = _Gone()


def gathered(parts: Out) -> Out:
    """Return the parts with adjacent short parts joined, and long parts unchanged."""
    out: Out = []
    run: Out = []
    for part in parts:
        if len(part) < LONG:
            run.append(part)
        else:
            if run:
                out.append(b"".join(run))
                run = []
            out.append(part)
    if run:
        out.append(b"".join(run))
    return out


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


#: Maximum total size in bytes of replies that are joined into one buffer. Of larger replies, only short buffers are
#: joined.
_COPY_LIMIT = 64 * 1024
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
#: Bytes of unread replies at which a client's commands stop.
_WRITE_HIGH = 1 << 20
#: Bytes of unread replies at which a client's commands continue.
_WRITE_LOW = 1 << 18


class CommandRunner(Protocol):
    """Runner of the commands of all connections, with the state that they share."""

    loop: asyncio.AbstractEventLoop
    replies: ReplyBatch
    limits: Limits
    traffic: Traffic

    def opened(self, connection: Connection) -> None:
        """Register a new client's session, or reject the client."""

    def closed(self, connection: Connection) -> None:
        """Remove a closed connection."""

    def run(self, connection: Connection, commands: list[list[bytes]], first: int = 0) -> None:
        """Run the connection's commands, as many as may run now, and send their replies."""

    def run_adds(self, connection: Connection, run: AddRun) -> bool:
        """Run a pipeline of XADDs together and send its replies; return False if its commands must run one by one."""


class Connection(asyncio.Protocol):
    """A client with an open socket. ``session``: its state in the core."""

    # A single class, because the reasons to pause reading and sending depend on each other, and each object per client
    # costs memory.

    __slots__ = (
        "_reading",
        "at",
        "backlog",
        "backlog_size",
        "before_login",
        "behind",
        "clogged",
        "commands",
        "held",
        "held_back",
        "held_size",
        "limits",
        "over_soft_since",
        "parser",
        "pieces",
        "pinned",
        "received",
        "replies",
        "runner",
        "scanner",
        "sent",
        "session",
        "slow",
        "stepping",
        "taken",
        "timer",
        "traffic",
        "transport",
        "yielding",
    )

    session: Session
    transport: asyncio.Transport

    def __init__(self, runner: CommandRunner) -> None:
        self.runner = runner
        self.limits = runner.limits
        self.replies = runner.replies
        self.traffic = runner.traffic
        self.parser = RequestParser(self.limits.max_bulk)
        #: Parsed commands; those before ``at`` have run.
        self.commands: list[list[bytes]] = []
        self.at = 0
        #: Bytes received while commands could not run.
        self.backlog: deque[bytes] = deque()
        self.backlog_size = 0
        #: Recognises this client's pipelines of XADDs.
        self.scanner = Scanner()
        #: Whether a pause (CLIENT PAUSE, a failover or a shutdown) holds the client's next command back.
        self.held_back = False
        #: Whether the client has too many unread replies, so that its next command waits.
        self.slow = False
        #: Whether the client is a replica with too many unread bytes; its commands continue to run.
        self.clogged = False
        #: Whether the client has used up its share of this event-loop iteration, and continues in the next one.
        self.yielding = False
        #: Whether the client's command is running in steps, or waits for another command that does.
        self.stepping = False
        #: Timer of the client's blocking command.
        self.timer: asyncio.TimerHandle | None = None
        #: Time in milliseconds since the epoch at which the unread replies reached the soft limit; 0 if they are below
        #: the limit.
        self.over_soft_since = 0
        #: Replies that wait for the end of the event-loop iteration.
        self.held: Out = []
        #: Size of ``held`` in bytes.
        self.held_size = 0
        #: Remaining pieces of a long reply.
        self.pieces: Iterator[Out] | None = None
        #: Bytes of entries and values that ``pieces`` keeps alive.
        self.pinned = 0
        #: Buffers to be sent after ``pieces``.
        self.behind: Out = []
        #: Bytes of commands and replies before login.
        self.before_login = 0
        #: Total bytes received.
        self.received = 0
        #: Total bytes sent, including ``held``.
        self.sent = 0
        #: Number of bytes that the client had read at the last call of `has_taken`.
        self.taken = 0
        self._reading = True

    # -- transport callbacks ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(_WRITE_HIGH, _WRITE_LOW)
        self.runner.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.runner.closed(self)
        self._release_buffers()

    def _release_buffers(self) -> None:
        """Free the buffers, and break reference cycles, because full garbage collections are rare."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.session.buffers = Buffers
        self.session.multi = None
        self.replies.drop(self)
        self.transport = GONE
        self.parser = RequestParser(0)
        self.scanner = Scanner()
        self.commands = []
        self.backlog.clear()
        self.held = []
        self.pieces = None
        self.behind = []
        self.backlog_size = self.held_size = self.pinned = self.at = 0

    def data_received(self, data: bytes) -> None:
        size = len(data)
        self.traffic.bytes_in += size
        self.received += size
        # The property `stopped`, inlined.
        if self.session.waiter is not None or self.held_back or self.slow or self.yielding or self.stepping:
            self.backlog.append(data)
            self.backlog_size += size
            self.check_input()
            return
        self.read(data)
        if size >= _LARGE_INPUT:
            # Let other clients run first: more data may be ready, and would be received in this same iteration.
            self._yield_if_running()

    def pause_writing(self) -> None:
        if self.session.is_replica:
            self.clogged = True
            return
        self.slow = True
        self.check_output()

    def resume_writing(self) -> None:
        self.slow = self.clogged = False
        self.over_soft_since = 0
        self.go_on()

    # -- input --------------------------------------------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """Whether the client's next command has to wait."""
        return self.session.waiter is not None or self.held_back or self.slow or self.yielding or self.stepping

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
        elif self.backlog:
            self.yield_to_others()

    def _put_back(self, data: bytes) -> None:
        self.backlog.appendleft(data)
        self.backlog_size += len(data)

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
        if self.backlog_size + self.parser.buffered > self.limits.query(session):
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
            elif self.backlog:
                data = self.backlog.popleft()
                self.backlog_size -= len(data)
                self.read(data)
                if self.backlog and not self.stopped:
                    # One chunk per iteration, as when chunks arrive from the socket.
                    self.yield_to_others()
            else:
                break
        self.adjust_reading()

    def adjust_reading(self) -> None:
        """Pause reading while the client's commands run. Clients whose next command waits for something else are still
        read: to notice if they disconnect, and because a client may send all its commands before it reads a reply.

        The end of a client's input is noticed only while the client is read. So a client that closes its sending side
        after a command with a long reply still receives the whole reply.
        """
        wanted = not (self.yielding or self.stepping)
        if wanted != self._reading and not self.transport.is_closing():
            self._reading = wanted
            if wanted:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def _yield_if_running(self) -> None:
        if not self.stopped and not self.transport.is_closing():
            self.yield_to_others()

    def yield_to_others(self) -> None:
        """Let other clients run before the next command."""
        if not self.yielding:
            self.yielding = True
            self.adjust_reading()
            self.runner.loop.call_soon(self.go_on)

    # -- output -------------------------------------------------------------------------------------------------------

    def send_piece(self) -> None:
        """Send the next piece of a long reply."""
        assert self.pieces is not None
        try:
            piece = next(self.pieces, None)
        except Exception:  # noqa: BLE001 - the data is unchanged, but the client has half a reply
            LOG.exception("cannot make the rest of a long reply")
            self.transport.abort()
            return
        if piece is not None:
            self.send(piece, is_piece=True)
            self.yield_to_others()
            return
        self.pieces, self.pinned = None, 0
        behind, self.behind = self.behind, []
        if behind:
            self.send(behind)
        if self.session.close_after_reply or self.session.close_requested:
            self.close()

    def send(self, parts: Out, *, is_piece: bool = False) -> None:
        """Send replies, now or at the end of the event-loop iteration; during a long reply, after its pieces."""
        if self.pieces is not None and not is_piece:
            if not self._is_too_much(sum(map(len, self.behind)) + sum(map(len, parts))):
                self.behind += parts
        elif not self.transport.is_closing():
            size = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
            if size > _WRITE_HIGH and self._is_too_much(size):
                return
            self.traffic.bytes_out += size
            self.sent += size
            self.replies.send(self, parts, size)

    def _is_too_much(self, size: int) -> bool:
        """Return whether ``size`` more bytes would exceed the hard output limit. If so, disconnect the client."""
        hard, _, _ = self.limits.output(self.session)
        waiting = self.held_size + self.transport.get_write_buffer_size() + size
        if not hard or waiting < hard:
            return False
        self.give_up(waiting)
        return True

    def give_up(self, size: int) -> None:
        """Disconnect the client, because ``size`` bytes of unread replies are too many."""
        if self.transport.is_closing():
            return
        session = self.session
        self.traffic.output_overruns += 1
        LOG.warning("client %d (%r) dropped: %d bytes of replies not read", session.id, session.addr, size)
        self.transport.abort()

    def release(self) -> None:
        """Write the replies in ``held``, with short buffers joined."""
        parts, size, transport = self.held, self.held_size, self.transport
        self.held, self.held_size = [], 0
        if not parts or transport.is_closing():
            return
        if len(parts) == 1:
            transport.write(parts[0])
        elif size <= _COPY_LIMIT:
            transport.write(b"".join(parts))
        else:
            transport.writelines(gathered(parts))
        if self.slow or self.clogged:
            self.check_output()

    def has_taken(self) -> bool:
        """Return whether the client is reading: part of a reply is still unread, and part was read since the last
        call.
        """
        waiting = self.held_size + self.transport.get_write_buffer_size()
        before, self.taken = self.taken, self.sent - waiting
        return self.taken > before and (waiting > 0 or self.pieces is not None)

    def check_output(self) -> None:
        """Disconnect the client if its unread replies exceed a limit."""
        session = self.session
        hard, soft, seconds = self.limits.output(session)
        size = self.transport.get_write_buffer_size() + self.pinned
        over = bool(hard) and size >= hard
        if soft and size >= soft:
            now = now_us() // 1000
            if not self.over_soft_since:
                self.over_soft_since = now
            over = over or now - self.over_soft_since >= seconds * 1000
        else:
            self.over_soft_since = 0
        if over:
            self.give_up(size)

    def buffers(self) -> Buffers:
        """Return the sizes of the client's buffers, for CLIENT LIST."""
        replies = self.transport.get_write_buffer_size() + self.held_size + self.pinned + sum(map(len, self.behind))
        waiting = self.parser.buffered + self.backlog_size
        return Buffers(waiting, replies, self.held_back, self.received, self.sent)

    def fail(self, error: bytes) -> None:
        """Send an error, and close the connection."""
        self.send([encoded(CommandError(error))])
        self.close()

    def close(self) -> None:
        """Close the connection after sending the replies that are waiting."""
        self.replies.close(self)
