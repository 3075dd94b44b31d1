"""What the core knows of one client, and what it waits for while it is blocked: plain data, no socket.

The shell makes a session for each connection (:meth:`engine.core.dispatch.Core.open_session`), fills in what it alone
knows (addresses, the descriptor), and keeps the way back from the session to the connection to itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from engine.core.clients.acl.user import User
from engine.core.clients.replica import AsReplica
from engine.core.protocol.replies import Reply
from engine.core.protocol.xadd_run import XaddRun
from engine.core.table.registry import Command

NOBODY = User(b"")
#: Replies and messages for clients other than the caller of the present command, in order.
Outbox = list[tuple["Session", Reply]]
#: A command that MULTI put off, with its words; or many XADDs at once.
Queued = tuple[Command, list[bytes] | XaddRun]
#: Whether a value at a key may be what a blocked command waits for.
HasNews = Callable[[bytes, Any], bool]


class Buffers(NamedTuple):
    """What waits at a connection: bytes of commands and of replies; whether CLIENT PAUSE holds a command back.

    ``received`` and ``sent`` are all bytes that have passed over it.
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
        "no_evict",
        "no_touch",
        "patterns",
        "proto",
        "reply_mode",
        "shard_channels",
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
        #: Who it is, whether it has said so with a password (or needed none), and whether it may run commands at all:
        #: :mod:`engine.core.clients.accounts` keeps these. ``limited``: not everything is allowed, commands must be
        #: checked.
        self.user = NOBODY
        self.logged_in = False
        self.authenticated = True
        self.limited = False
        #: Commands queued since MULTI, None outside a transaction; many XADDs at once stand there as one run.
        self.multi: list[Queued] | None = None
        #: A command could not be queued: EXEC aborts.
        self.multi_failed = False
        #: A watched key changed: EXEC answers nil.
        self.dirty_exec = False
        #: EXEC is running this session's commands: nothing blocks.
        self.in_exec = False
        #: Watched (database, key) pairs; the value says whether the key was expired then, but not removed yet.
        self.watching: dict[tuple[int, bytes], bool] = {}
        #: What the client waits for while it is blocked.
        self.waiter: Waiter | None = None
        self.channels: set[bytes] = set()
        self.patterns: set[bytes] = set()
        self.shard_channels: set[bytes] = set()
        #: How many of the three there are together.
        self.subscriptions = 0
        self.monitor = False
        #: CLIENT REPLY: "on", "off", "skip-next" (the next command's reply is dropped), "skip" while that one runs.
        self.reply_mode = "on"
        #: What REPLCONF has said of the client, which will ask for PSYNC or SYNC; whether it has, and is a replica now.
        self.as_replica: AsReplica | None = None
        self.is_replica = False
        #: It speaks for the master that this server follows: what it says is obeyed.
        self.is_master = False
        #: The shell closes the connection: at once, or when what is queued has been sent.
        self.close_requested = False
        self.close_after_reply = False
        self.addr = b""
        self.laddr = b""
        self.fd = -1
        self.created_ms = now_ms
        self.last_ms = now_ms
        #: The last command's full name, NULL if there is none of that name; how many have run, and are not waiting.
        self.last_command = b"NULL"
        self.calls = 0
        self.no_evict = False
        self.no_touch = False
        #: Given by the shell: the state of the connection's buffers now.
        self.buffers: Callable[[], Buffers] = Buffers

    def queued(self) -> tuple[int, int]:
        """How many commands the transaction has queued (-1: there is none), and the bytes of their words."""
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
    """One blocked command. ``argv`` runs anew when a key of ``keys`` is signalled, so it holds no relative ID."""

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
        "type_name",
    )

    def __init__(
        self,
        session: Session,
        argv: list[bytes],
        keys: list[bytes],
        deadline: int | None,
        on_timeout: Reply,
        type_name: bytes,
        on_delete: bool,
    ) -> None:
        self.session = session
        self.db = session.db
        self.argv = argv
        self.keys = keys
        #: Milliseconds since the epoch; None: for ever.
        self.deadline = deadline
        #: Runs anew at this time even if nobody signals; None: only on a signal.
        self.retry_at: int | None = None
        self.on_timeout = on_timeout
        #: Only a key of this type wakes it.
        self.type_name = type_name
        #: Also woken when the key goes or changes its type (XREADGROUP).
        self.on_delete = on_delete
        #: Whether a value at a key may be what it waits for; None: its command must run to find that out. Of many who
        #: wait for one key most find nothing, and this says so at a fraction of what the command costs.
        self.has_news: HasNews | None = None
        #: Equal for those for whom ``has_news`` says the same at the same moment; None: for nobody else.
        self.interest: bytes | None = None
        #: Nanoseconds that the command has run so far, without the time it waited.
        self.spent_ns = 0
        #: The words as the client sent them, for the slow log.
        self.called = argv

    @property
    def wake_at(self) -> int | None:
        """When the shell is to call :meth:`engine.core.dispatch.Core.wake`, if nothing happens until then."""
        if self.retry_at is None or self.deadline is None:
            return self.deadline if self.retry_at is None else self.retry_at
        return min(self.deadline, self.retry_at)
