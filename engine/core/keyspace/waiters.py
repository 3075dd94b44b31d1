"""Clients that wait for data: who, for which keys, until when.

Per key the waiters stand in the order in which they blocked. This module keeps the books; who is woken, and what the
command then answers, is decided by :class:`engine.core.dispatch.Core`, and the timer for the deadline is the shell's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.core.protocol.replies import Reply

if TYPE_CHECKING:
    from engine.core.clients.session import Session

HasNews = Callable[[bytes, Any], bool]


class Waiter:
    """One blocked command. ``argv`` runs anew when a key of ``keys`` is signalled, so it holds no relative ID."""

    __slots__ = (
        "argv",
        "db",
        "deadline",
        "has_news",
        "interest",
        "keys",
        "on_delete",
        "on_timeout",
        "retry_at",
        "session",
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

    @property
    def wake_at(self) -> int | None:
        """When the shell is to call :meth:`engine.core.dispatch.Core.wake`, if nothing happens until then."""
        if self.retry_at is None or self.deadline is None:
            return self.deadline if self.retry_at is None else self.retry_at
        return min(self.deadline, self.retry_at)


class WaitingRoom:
    """The waiters of one database, by key, in order."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        # A dict as an ordered set: removing one of ten thousand waiters costs no more than removing one of two.
        self._by_key: dict[bytes, dict[Waiter, None]] = {}

    def __contains__(self, key: bytes) -> bool:
        return key in self._by_key

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def __len__(self) -> int:
        """How many keys have waiters."""
        return len(self._by_key)

    def awaited(self) -> list[bytes]:
        """The keys that somebody waits for."""
        return list(self._by_key)

    def add(self, waiter: Waiter) -> None:
        """Queue up behind those who already wait."""
        for key in waiter.keys:
            self._by_key.setdefault(key, {})[waiter] = None

    def remove(self, waiter: Waiter) -> None:
        """Leave every queue."""
        for key in waiter.keys:
            queue = self._by_key.get(key)
            if queue is not None:
                queue.pop(waiter, None)
                if not queue:
                    del self._by_key[key]

    def waiting_for(self, key: bytes) -> list[Waiter]:
        """Those who wait for ``key``, first come first."""
        return list(self._by_key.get(key, ()))
