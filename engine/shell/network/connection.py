"""One client's socket: the sending of replies, and the reasons for which its commands do not run.

A long reply is sent in pieces, one per event-loop iteration, so that other clients are served in between. The client's
next command, and everything else sent to the client, waits for the last piece.

While the client has too many unread bytes, neither the next piece is made nor the next command run, but the client is
still read. So a client may send any number of commands before it reads a reply: what waits is its input, which is
usually smaller than the replies. ``client-query-buffer-limit`` limits it.

`engine.shell.network.runner.Client` reads the input and runs the commands.

Replies wait for the end of an event-loop iteration for two reasons. First, if many clients send requests at the same
time, those served in one iteration get their replies together. A reply sent alone wakes the process that waits for it,
which may take the kernel longer than the rest of the request. If replies are sent together, only the first one wakes a
process. With few clients it is better to send each reply immediately, because each client makes its next request while
the others are served.

Second, with ``appendfsync always``, no reply is sent before its effects are on disk. After the first effect of an
iteration, the batch holds everything: the caller's reply, messages to woken clients and subscribers, and replies to
later reads in the same iteration. One fsync serves them all. With the other policies, one write to the log serves many
clients in the same way. If the fsync or write fails, the connections with held replies are closed: it is unknown
whether their commands will survive, so the clients must get neither a success nor an error.

Each connection's bytes are sent in their original order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import cast

from engine.core.clients.session import Buffers, Session
from engine.core.protocol.replies import CommandError
from engine.settings.config import Config
from engine.settings.kinds import OutputLimit
from engine.shell.clock import now_us
from engine.shell.observation.log_lines import LOG
from engine.shell.observation.process_facts import Traffic
from engine.wire.encode import LONG, Out, encoded

#: Maximum number of bytes of commands and replies before login. A command of ten words of 16 KiB fits.
BEFORE_LOGIN = 256 << 10
#: Limit of unprocessed input before login, in bytes: the commands behind a login.
_WAITING_BEFORE_LOGIN = 1 << 20


class Limits:
    """Limits of clients that directives set: number, unprocessed input, unread output. ``on_change`` is called after
    a change.
    """

    __slots__ = ("_backlog", "_config", "_output", "_query", "max_bulk", "max_clients", "on_change")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._output: dict[bytes, OutputLimit] = {}
        self._query = self._backlog = 0
        #: Maximum length of a bulk string of a request in bytes.
        self.max_bulk = 0
        self.max_clients = 0
        self.on_change: Callable[[], None] = lambda: None
        for name in (
            "proto-max-bulk-len",
            "client-query-buffer-limit",
            "maxclients",
            "client-output-buffer-limit",
            "repl-backlog-size",
        ):
            config.on_change(name, self._follow)
        self._follow()

    def _follow(self) -> None:
        config = self._config
        self.max_bulk = config.integer("proto-max-bulk-len")
        self.max_clients = config.integer("maxclients")
        self._query = config.integer("client-query-buffer-limit")
        self._backlog = config.integer("repl-backlog-size")
        self._output = config.value("client-output-buffer-limit", dict)
        self.on_change()

    def query(self, session: Session) -> int:
        """Return the maximum number of bytes of unprocessed input."""
        return self._query if session.authenticated else min(self._query, _WAITING_BEFORE_LOGIN)

    def output(self, session: Session) -> OutputLimit:
        """Return the limit for the bytes of unread replies and messages."""
        if session.is_replica:
            # The limits are at least the size of the backlog: lower limits would only cause full synchronisations.
            hard, soft, seconds = self._output[b"slave"]
            return OutputLimit(hard and max(hard, self._backlog), soft and max(soft, self._backlog), seconds)
        return self._output[b"pubsub" if session.subscriptions else b"normal"]


#: Maximum bytes of a client's replies that are held to save a wake-up: sending more costs more than waking a process.
_MOST_BYTES = 64 * 1024
#: Maximum number of clients that count as few. Measured with single XADDs: waiting makes 2 clients a third slower, 4 a
#: tenth slower, 6 a sixth faster, 50 two thirds faster.
_FEW = 5
#: Number of replies after which to count the clients that received them. Replies sent together count as one for
#: each client.
_ROUND = 32


class ReplyBatch:
    """Batch of one server. ``flush`` is called at the end of an iteration with a held batch; it returns whether
    replies may be sent.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, flush: Callable[[], bool]) -> None:
        self._flush = flush
        self._loop = loop
        #: Connections with waiting bytes, in order. A dictionary, because thousands may close in one iteration.
        self._held: dict[Connection, None] = {}
        self._closing: set[Connection] = set()
        #: Connections that have received replies since the last count.
        self._served: set[Connection] = set()
        #: Number of replies since the last count.
        self._replies = 0
        #: Whether the last count found more than `_FEW` connections.
        self._crowded = False
        #: Whether a call of `end_iteration` is scheduled.
        self._end_due = False
        #: Whether all replies are held until the end of this iteration.
        self.is_held = False

    def hold(self) -> None:
        """Hold all replies until the end of this iteration."""
        self.is_held = True
        self._await_end()

    def hold_if_crowded(self) -> bool:
        """Hold replies if most of them wait for the end of the iteration anyway; return whether replies are held."""
        if self._crowded:
            self.hold()
        return self.is_held

    def _await_end(self) -> None:
        if not self._end_due:
            self._end_due = True
            # This callback runs before any input that is received later.
            self._loop.call_soon(self.end_iteration)

    def send(self, connection: Connection, parts: Out, size: int) -> None:
        """Send bytes now or at the end of the iteration."""
        connection.unsent += parts
        connection.unsent_size += size
        if self.is_held or (self._crowded and connection.unsent_size <= _MOST_BYTES):
            self._held[connection] = None
            if not self._end_due:
                self._await_end()
            return
        self._served.add(connection)
        self._replies += 1
        if self._replies >= _ROUND:
            self._count_clients()
        connection.release()

    def _count_clients(self) -> None:
        self._crowded = len(self._served) > _FEW
        self._served.clear()
        self._replies = 0

    def close(self, connection: Connection) -> None:
        """Close a connection after sending its bytes."""
        if self.is_held:
            self._closing.add(connection)
        else:
            connection.release()
            connection.transport.close()

    def drop(self, connection: Connection) -> None:
        """Drop a closed connection."""
        self._served.discard(connection)
        self._closing.discard(connection)
        self._held.pop(connection, None)

    def end_iteration(self) -> None:
        """If the batch is held, write the iteration's effects to the log first. Then send the held replies, or close
        their connections if `flush` forbids sending.
        """
        self._end_due = False
        safe = not self.is_held or self._flush()
        self.is_held = False
        held, self._held = self._held, {}
        closing, self._closing = self._closing, set()
        self._served.update(held)
        self._replies += len(held)
        if self._replies >= _ROUND:
            self._count_clients()
        for connection in held:
            if safe:
                connection.release()
            else:
                connection.transport.abort()
        for connection in closing:
            connection.transport.close()


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


#: Maximum total size in bytes of replies that are joined into one buffer. Of larger replies, only short buffers are
#: joined.
_COPY_LIMIT = 64 * 1024
#: Bytes of unread replies at which a client's commands stop.
_WRITE_HIGH = 1 << 20
#: Bytes of unread replies at which a client's commands continue.
_WRITE_LOW = 1 << 18


class Connection(asyncio.Protocol):
    """A client with an open socket. ``session``: its state in the core."""

    # A single class, because the reasons to pause reading and sending depend on each other, and each object per client
    # costs memory.

    __slots__ = (
        "_reading",
        "behind",
        "clogged",
        "held_back",
        "limits",
        "loop",
        "over_soft_since",
        "pieces",
        "pinned",
        "replies",
        "sent",
        "session",
        "slow",
        "stepping",
        "taken",
        "timer",
        "traffic",
        "transport",
        "unsent",
        "unsent_size",
        "yielding",
    )

    session: Session
    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, replies: ReplyBatch, limits: Limits, traffic: Traffic) -> None:
        self.loop = loop
        self.replies = replies
        self.limits = limits
        self.traffic = traffic
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
        self.unsent: Out = []
        #: Size of ``unsent`` in bytes.
        self.unsent_size = 0
        #: Remaining pieces of a long reply.
        self.pieces: Iterator[Out] | None = None
        #: Bytes of entries and values that ``pieces`` keeps alive.
        self.pinned = 0
        #: Buffers to be sent after ``pieces``.
        self.behind: Out = []
        #: Total bytes of replies, including ``unsent``.
        self.sent = 0
        #: Number of bytes that the socket had taken at the last call of `has_taken`.
        self.taken = 0
        self._reading = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(_WRITE_HIGH, _WRITE_LOW)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Free the buffers, and break reference cycles, because full garbage collections are rare."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.session.buffers = Buffers
        self.session.multi = None
        self.replies.drop(self)
        self.transport = GONE
        self.unsent, self.behind = [], []
        self.pieces = None
        self.unsent_size = self.pinned = 0

    # -- pauses -------------------------------------------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """Whether the client's next command has to wait."""
        return self.session.waiter is not None or self.held_back or self.slow or self.yielding or self.stepping

    def go_on(self) -> None:
        """Run the waiting input until a command has to wait."""
        raise NotImplementedError

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

    def yield_to_others(self) -> None:
        """Let other clients run before the next command."""
        if not self.yielding:
            self.yielding = True
            self.adjust_reading()
            self.loop.call_soon(self.go_on)

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
        waiting = self.unsent_size + self.transport.get_write_buffer_size() + size
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
        """Write the replies in ``unsent``, with short buffers joined."""
        parts, size, transport = self.unsent, self.unsent_size, self.transport
        self.unsent, self.unsent_size = [], 0
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
        waiting = self.unsent_size + self.transport.get_write_buffer_size()
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

    def fail(self, error: bytes) -> None:
        """Send an error, and close the connection."""
        self.send([encoded(CommandError(error))])
        self.close()

    def close(self) -> None:
        """Close the connection after sending the replies that are waiting."""
        self.replies.close(self)
