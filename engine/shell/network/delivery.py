"""Delivery of commands' results: first effects, then replies, messages to other clients, and work after a reply.

The order is the invariant: an effect must be logged before any client sees it. After an unexpected error in the logging
of effects, nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.protocol.replies import CommandError, Push, Reply
from engine.shell.durability.disk import DiskDurability
from engine.shell.network.connections.connection import Connection
from engine.shell.network.connections.reply_batch import ReplyBatch
from engine.shell.observation.log_lines import LOG
from engine.text import messages
from engine.wire.encode import Out, encode, encoded

INTERNAL_ERROR = CommandError(messages.INTERNAL_ERROR)


class Delivery:
    """Delivery for one core. ``disk``: receives the effects of commands before ``replies`` sends their replies.
    ``connections``: open connections by session ID. ``fail``: called on a fatal error.
    """

    __slots__ = ("_connections", "_core", "_disk", "_fail", "_replies", "after_reply", "is_over")

    def __init__(
        self,
        core: Core,
        disk: DiskDurability,
        replies: ReplyBatch,
        connections: Mapping[int, Connection],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._core = core
        self._disk = disk
        self._replies = replies
        self._connections = connections
        self._fail = fail
        #: Whether effects could not be passed on, after which nothing may be sent.
        self.is_over = False
        #: Work to do after the reply of the current command has been encoded. The list is never replaced.
        self.after_reply: list[Callable[[], None]] = []

    def flush(self, connection: Connection, out: Out) -> None:
        """Pass on the effects, then send the replies of their commands."""
        if self._core.changes.effects:
            self.flush_effects()
        if out and not self.is_over:
            connection.send(out)

    def flush_effects(self) -> None:
        """Pass the collected effects to the log and the replicas.

        If replies must wait for an fsync, or most of them wait anyway, one write at the end of the iteration serves all
        its commands.
        """
        changes = self._core.changes
        if not changes.effects:
            return
        effects = changes.effects[:]
        changes.effects.clear()
        try:
            if self._disk.append(effects):
                self._replies.hold()
            elif not self._replies.hold_if_crowded():
                self._disk.flush()
        except Exception as error:  # noqa: BLE001 - the log and the data may differ after this error
            self.is_over = True
            self._fail(error)

    def send_outbox(self, caller: Session | None = None) -> list[Reply]:
        """Send the core's messages to their clients.

        Return the messages for the ``caller``, to be sent after its reply.
        """
        replies: list[Reply] = []
        outbox = self._core.outbox
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
                connection = self._connections.get(session_id)
                if connection is not None:
                    connection.send(pieces)
            for session, _ in items:
                if session is not caller and session.waiter is None:
                    self._unblocked(session)
        return replies

    def _unblocked(self, session: Session) -> None:
        if session.reply_mode == "skip":
            # The reply to be skipped was that of the blocking command.
            session.reply_mode = "on"
        connection = self._connections.get(session.id)
        if connection is None:
            return
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None
        if connection.commands or connection.backlog or not connection.parser.at_boundary:
            connection.yield_to_others()

    def do_after_reply(self) -> None:
        """Run the callbacks that commands have requested to run after their reply."""
        work = self.after_reply[:]
        self.after_reply.clear()
        for callback in work:
            try:
                callback()
            except Exception:  # noqa: BLE001 - the other callbacks are independent of this one
                LOG.exception("unexpected error in the work after a reply")


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
