"""What a command sees besides its words: who calls, on which database, when, and where its effects go.

One object serves all commands of a core in turn; a command never keeps it. Effects are canonical, deterministic
commands: what the log keeps and the replicas get, and what brings an empty core to the same state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.keyspace.waiters import HasNews, Waiter
from engine.core.protocol.replies import BLOCKED, NIL_ARRAY, Reply

if TYPE_CHECKING:
    from engine.core.clients.session import Session
    from engine.core.dispatch import Core
    from engine.core.keyspace.database import Database


class Context:
    """One command's surroundings. ``now`` is in milliseconds since the epoch, ``now_us`` in microseconds."""

    __slots__ = ("core", "db", "now", "now_us", "retry", "session")

    core: Core
    session: Session
    db: Database
    now: int
    now_us: int
    #: The waiter whose command runs anew, None where a command runs for the first time.
    retry: Waiter | None

    def __init__(self, core: Core, session: Session) -> None:
        self.core = core
        self.session = session
        self.db = core.databases[0]
        self.now = 0
        self.now_us = 0
        self.retry = None

    @property
    def resp3(self) -> bool:
        """Whether the client speaks RESP3."""
        return self.session.proto == 3

    def effect(self, *argv: bytes) -> None:
        """Record what happened, in a form that does it again on any core."""
        core = self.core
        if core.recording:
            core.effects.append((self.db.index, list(argv)))

    def block(
        self,
        argv: list[bytes],
        keys: list[bytes],
        timeout_ms: int,
        *,
        type_name: bytes,
        on_delete: bool = False,
        on_timeout: Reply = NIL_ARRAY,
        wake_at: int | None = None,
        has_news: HasNews | None = None,
        interest: bytes | None = None,
    ) -> Reply:
        """Wait for one of ``keys``; the command ``argv`` then runs anew. 0 ms is for ever. In a transaction:
        ``on_timeout``.

        A command that runs anew and blocks again keeps its place and its first deadline. At ``wake_at`` (milliseconds
        since the epoch) it runs anew without a signal. ``has_news`` tells, given a key and its value, whether running
        anew may find something, and says the same for all waiters of one ``interest``.
        """
        if self.session.in_exec:
            return on_timeout
        if self.retry is None:
            deadline = self.now + timeout_ms if timeout_ms else None
            waiter = Waiter(self.session, argv, list(dict.fromkeys(keys)), deadline, on_timeout, type_name, on_delete)
            waiter.has_news, waiter.interest = has_news, interest
            self.session.waiter = waiter
            self.db.waiting.add(waiter)
        else:
            waiter = self.retry
        waiter.retry_at = wake_at
        return BLOCKED
