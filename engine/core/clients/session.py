"""The core's state of one client and of its blocked command: plain data without a socket.

The shell creates a session for each connection (``engine.core.dispatch.Core.open_session``), and sets its addresses and
descriptor. Only the shell has the mapping of sessions to connections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.core.clients.acl import User
from engine.core.protocol.replies import Reply
from engine.core.protocol.xadd import XaddRun
from engine.core.table.registry import Command


@dataclass(slots=True)
class AsReplica:
    """Settings of a client that is about to become a replica. The defaults apply without REPLCONF."""

    #: Announced port; 0 if the port of the connection applies.
    port: int = 0
    #: Announced address; empty if the address of the connection applies.
    address: bytes = b""
    #: Capabilities: ``eof`` (snapshots of unknown length), ``psync2``, ``psb`` (snapshots in the engine's own format).
    capabilities: frozenset[bytes] = frozenset()
    #: Whether the client requests only a snapshot, without later commands (``redis-cli --rdb``).
    rdb_only: bool = False


NOBODY = User(b"")
#: Replies and messages for clients other than the caller of the current command, in order.
Outbox = list[tuple["Session", Reply]]
#: A command queued by MULTI, with its words; or many XADDs as one run.
Queued = tuple[Command, list[bytes] | XaddRun]
#: Function that returns whether a value at a key may satisfy a blocked command.
HasNews = Callable[[bytes, Any], bool]


class Buffers(NamedTuple):
    """A connection's buffers: bytes of commands and of replies, and whether CLIENT PAUSE holds a command back.

    ``received`` and ``sent`` are the connection's totals in bytes.
    """

    commands: int = 0
    replies: int = 0
    held_back: bool = False
    received: int = 0
    sent: int = 0


class Session:
    """One client's state."""

    __slots__ = (
        "addr",
        "as_replica",
        "authenticated",
        "buffers",
        "calls",
        "channels",
        "close_after_reply",
        "close_requested",
        "created_ms",
        "db",
        "dirty_exec",
        "fd",
        "id",
        "in_exec",
        "is_master",
        "is_replica",
        "laddr",
        "last_command",
        "last_ms",
        "lib_name",
        "lib_ver",
        "limited",
        "logged_in",
        "monitor",
        "multi",
        "multi_failed",
        "name",
        "patterns",
        "proto",
        "reply_mode",
        "subscriptions",
        "user",
        "waiter",
        "watching",
    )

    def __init__(self, session_id: int, now_ms: int) -> None:
        self.id = session_id
        self.db = 0
        self.name = b""
        self.lib_name = b""
        self.lib_ver = b""
        self.proto = 2
        # The next four attributes are maintained by ``engine.core.clients.accounts``.
        #: The user.
        self.user = NOBODY
        #: Whether the client has logged in.
        self.logged_in = False
        #: Whether the client may run commands; true also without a login if the default user needs no password.
        self.authenticated = True
        #: Whether the rules of the user must be checked for each command.
        self.limited = False
        #: Commands queued since MULTI, None outside a transaction; many XADDs at once are queued as one run.
        self.multi: list[Queued] | None = None
        #: Whether a command could not be queued, so that EXEC aborts.
        self.multi_failed = False
        #: Whether a watched key has changed, so that EXEC returns nil.
        self.dirty_exec = False
        #: Whether EXEC is running this session's commands, which must not block.
        self.in_exec = False
        #: Watched (database, key) pairs.
        self.watching: set[tuple[int, bytes]] = set()
        #: The blocked command, if any.
        self.waiter: Waiter | None = None
        self.channels: set[bytes] = set()
        self.patterns: set[bytes] = set()
        #: Total number of both kinds of subscriptions.
        self.subscriptions = 0
        self.monitor = False
        #: CLIENT REPLY: "on", "off", "skip-next" (the next command's reply is dropped), "skip" while that command runs.
        self.reply_mode = "on"
        #: REPLCONF settings of a client that will become a replica.
        self.as_replica: AsReplica | None = None
        #: Whether the client is a replica.
        self.is_replica = False
        #: Whether the client is this server's master. No ``Refusal`` applies to a master's commands.
        self.is_master = False
        #: Whether the shell must close the connection immediately.
        self.close_requested = False
        #: Whether the shell must close the connection after sending queued data.
        self.close_after_reply = False
        self.addr = b""
        self.laddr = b""
        self.fd = -1
        self.created_ms = now_ms
        self.last_ms = now_ms
        #: The last command's full name; NULL before the first command and after an unknown command.
        self.last_command = b"NULL"
        #: Number of completed commands.
        self.calls = 0
        #: Function, set by the shell, that returns the current state of the connection's buffers.
        self.buffers: Callable[[], Buffers] = Buffers

    def queued(self) -> tuple[int, int]:
        """Return the number of commands queued by MULTI (-1 outside a transaction), and the bytes in their words."""
        if self.multi is None:
            return -1, 0
        count = size = 0
        for _, words in self.multi:
            if isinstance(words, list):
                count += 1
                size += sum(map(len, words))
            else:
                count += words.count
                size += sum(words.sizes)
        return count, size


class Waiter:
    """A blocked command. ``argv`` runs again when one of ``keys`` is signalled.

    ``argv`` contains fixed IDs instead of ``$``, which would be a later ID when the command runs again.
    """

    __slots__ = (
        "argv",
        "called",
        "db",
        "deadline",
        "has_news",
        "interest",
        "keys",
        "on_delete",
        "on_timeout",
        "retry_at",
        "session",
        "spent_ns",
    )

    def __init__(
        self,
        session: Session,
        argv: list[bytes],
        keys: list[bytes],
        deadline: int | None,
        on_timeout: Reply,
        on_delete: bool,
    ) -> None:
        self.session = session
        self.db = session.db
        self.argv = argv
        self.keys = keys
        #: End of the wait in milliseconds since the epoch; None if the client waits indefinitely.
        self.deadline = deadline
        #: Time at which the command runs again even without a signal, in milliseconds since the epoch; None if the
        #: command runs again only after a signal.
        self.retry_at: int | None = None
        self.on_timeout = on_timeout
        #: Whether the client is also woken when the key no longer has a stream (XREADGROUP).
        self.on_delete = on_delete
        #: Cheap check of whether a key's value may satisfy the command; None: the command must run to find out. If
        #: many clients wait for one key, the check avoids running the commands that would find nothing.
        self.has_news: HasNews | None = None
        #: Identifier shared by waiters whose ``has_news`` always returns the same result; None: not shared.
        self.interest: bytes | None = None
        #: Nanoseconds spent running the command, without waiting.
        self.spent_ns = 0
        #: The original words of the client, for the slow log.
        self.called = argv

    @property
    def wake_at(self) -> int | None:
        """Time at which the shell must call ``engine.core.dispatch.Core.wake``; None: no such call is needed."""
        if self.retry_at is None or self.deadline is None:
            return self.deadline if self.retry_at is None else self.retry_at
        return min(self.deadline, self.retry_at)
