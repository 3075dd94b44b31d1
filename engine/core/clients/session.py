"""The core's state of one client and of its blocked command: plain data without a socket.

The shell creates a session for each connection (``engine.core.dispatch.Core.open_session``), and sets its addresses and
descriptor. Only the shell has the mapping of sessions to connections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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


@dataclass(slots=True, eq=False, repr=False)
class Session:
    """One client's state."""

    id: int
    #: Times of the connection and of the last command in milliseconds since the epoch.
    created_ms: int
    last_ms: int = field(init=False)
    db: int = 0
    name: bytes = b""
    lib_name: bytes = b""
    lib_ver: bytes = b""
    proto: int = 2
    # The next four attributes are maintained by ``engine.core.clients.accounts``.
    #: The user.
    user: User = NOBODY
    #: Whether the client has logged in.
    logged_in: bool = False
    #: Whether the client may run commands; true also without a login if the default user needs no password.
    authenticated: bool = True
    #: Whether the rules of the user must be checked for each command.
    limited: bool = False
    #: Commands queued since MULTI, None outside a transaction; many XADDs at once are queued as one run.
    multi: list[Queued] | None = None
    #: Whether a command could not be queued, so that EXEC aborts.
    multi_failed: bool = False
    #: Whether a watched key has changed, so that EXEC returns nil.
    dirty_exec: bool = False
    #: Whether EXEC is running this session's commands, which must not block.
    in_exec: bool = False
    #: Watched (database, key) pairs.
    watching: set[tuple[int, bytes]] = field(default_factory=set)
    #: The blocked command, if any.
    waiter: Waiter | None = None
    channels: set[bytes] = field(default_factory=set)
    patterns: set[bytes] = field(default_factory=set)
    #: Total number of both kinds of subscriptions.
    subscriptions: int = 0
    monitor: bool = False
    #: CLIENT REPLY: "on", "off", "skip-next" (the next command's reply is dropped), "skip" while that command runs.
    reply_mode: str = "on"
    #: REPLCONF settings of a client that will become a replica.
    as_replica: AsReplica | None = None
    #: Whether the client is a replica.
    is_replica: bool = False
    #: Whether the client is this server's master. No ``Refusal`` applies to a master's commands.
    is_master: bool = False
    #: Whether the shell must close the connection immediately.
    close_requested: bool = False
    #: Whether the shell must close the connection after sending queued data.
    close_after_reply: bool = False
    addr: bytes = b""
    laddr: bytes = b""
    fd: int = -1
    #: The last command's full name; NULL before the first command and after an unknown command.
    last_command: bytes = b"NULL"
    #: Number of completed commands.
    calls: int = 0
    #: Function, set by the shell, that returns the current state of the connection's buffers.
    buffers: Callable[[], Buffers] = Buffers

    def __post_init__(self) -> None:
        self.last_ms = self.created_ms

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


@dataclass(slots=True, eq=False, repr=False)
class Waiter:
    """A blocked command. ``argv`` runs again when one of ``keys`` is signalled.

    ``argv`` contains fixed IDs instead of ``$``, which would be a later ID when the command runs again.
    """

    session: Session
    argv: list[bytes]
    keys: list[bytes]
    #: End of the wait in milliseconds since the epoch; None if the client waits indefinitely.
    deadline: int | None
    on_timeout: Reply
    #: Whether the client is also woken when the key no longer has a stream (XREADGROUP).
    on_delete: bool
    #: Time at which the command runs again even without a signal, in milliseconds since the epoch; None if the
    #: command runs again only after a signal.
    retry_at: int | None = None
    #: Cheap check of whether a key's value may satisfy the command; None: the command must run to find out. If
    #: many clients wait for one key, the check avoids running the commands that would find nothing.
    has_news: HasNews | None = None
    #: Identifier shared by waiters whose ``has_news`` always returns the same result; None: not shared.
    interest: bytes | None = None
    #: Nanoseconds spent running the command, without waiting.
    spent_ns: int = 0
    db: int = field(init=False)
    #: The original words of the client, for the slow log.
    called: list[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.db = self.session.db
        self.called = self.argv

    @property
    def wake_at(self) -> int | None:
        """Time at which the shell must call ``engine.core.dispatch.Core.wake``; None: no such call is needed."""
        if self.retry_at is None or self.deadline is None:
            return self.deadline if self.retry_at is None else self.retry_at
        return min(self.deadline, self.retry_at)
