"""One client's socket: the sending of replies, and the reasons for which its commands do not run.

A long reply is sent in pieces, one per event-loop iteration, so that other clients are served in between. The client's
next command, and everything else sent to the client, waits for the last piece.

While the client has too many unread bytes, neither the next piece is made nor the next command run, but the client is
still read. So a client may send any number of commands before it reads a reply: what waits is its input, which is
usually smaller than the replies. ``client-query-buffer-limit`` limits it.

`engine.shell.network.runner.Client` reads the input and runs the commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import cast

from engine.core.clients.session import Buffers, Session
from engine.core.protocol.replies import CommandError
from engine.shell.clock import now_us
from engine.shell.network.connections.limits import Limits
from engine.shell.network.connections.reply_batch import ReplyBatch
from engine.shell.observation.log_lines import LOG
from engine.shell.observation.process_facts import Traffic
from engine.wire.encode import LONG, Out, encoded


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
        "held",
        "held_back",
        "held_size",
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
        self.held: Out = []
        #: Size of ``held`` in bytes.
        self.held_size = 0
        #: Remaining pieces of a long reply.
        self.pieces: Iterator[Out] | None = None
        #: Bytes of entries and values that ``pieces`` keeps alive.
        self.pinned = 0
        #: Buffers to be sent after ``pieces``.
        self.behind: Out = []
        #: Total bytes sent, including ``held``.
        self.sent = 0
        #: Number of bytes that the client had read at the last call of `has_taken`.
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
        self.held, self.behind = [], []
        self.pieces = None
        self.held_size = self.pinned = 0

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

    def fail(self, error: bytes) -> None:
        """Send an error, and close the connection."""
        self.send([encoded(CommandError(error))])
        self.close()

    def close(self) -> None:
        """Close the connection after sending the replies that are waiting."""
        self.replies.close(self)
