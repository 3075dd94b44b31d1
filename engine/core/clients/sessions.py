"""All clients of one core: their sessions by ID, and the ways in which a blocked command ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.core.clients.session import Outbox, Session, Waiter
from engine.core.keyspace.database import Database
from engine.core.protocol.replies import Reply


class Sessions:
    """The open sessions, in the order in which they were opened. Replies to blocked clients go to ``outbox``."""

    __slots__ = ("_by_id", "_databases", "_last_id", "_outbox", "on_wait_ended")

    def __init__(self, databases: list[Database], outbox: Outbox) -> None:
        self._by_id: dict[int, Session] = {}
        self._databases = databases
        self._outbox = outbox
        self._last_id = 0
        #: Called for each blocked command that ends with a reply.
        self.on_wait_ended: Callable[[Waiter], None] = lambda _: None

    def __iter__(self) -> Iterator[Session]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, session_id: int) -> Session | None:
        """Return the session with this ID, None if it is not open."""
        return self._by_id.get(session_id)

    def open(self, now: int) -> Session:
        """Create a session for a new client; ``now`` is in milliseconds since the epoch."""
        self._last_id += 1
        session = self._by_id[self._last_id] = Session(self._last_id, now)
        return session

    def close(self, session: Session) -> None:
        """Remove the session of a closed connection and cancel its blocked command."""
        self._by_id.pop(session.id, None)
        self.cancel_wait(session)

    def blocked(self) -> list[Session]:
        """Return the sessions that are blocked."""
        return [session for session in self if session.waiter is not None]

    def cancel_wait(self, session: Session) -> None:
        """Unblock the session without a reply."""
        waiter = session.waiter
        if waiter is not None:
            session.waiter = None
            self._databases[waiter.db].waiting.remove(waiter)

    def end_wait(self, session: Session, reply: Reply) -> None:
        """Unblock the session with ``reply``."""
        waiter = session.waiter
        self.cancel_wait(session)
        if waiter is not None:
            self.on_wait_ended(waiter)
        session.calls += 1
        self._outbox.append((session, reply))

    def time_out(self, session: Session) -> None:
        """Unblock the session with its command's reply for a timeout."""
        if session.waiter is not None:
            self.end_wait(session, session.waiter.on_timeout)
