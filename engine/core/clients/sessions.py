"""All clients of one core: their sessions by number, and the end of waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.core.clients.session import Outbox, Session, Waiter
from engine.core.keyspace.database import Database
from engine.core.protocol.replies import Reply


class Sessions:
    """The open sessions, in the order in which they were opened. Replies to those who waited go to ``outbox``."""

    __slots__ = ("_by_id", "_databases", "_last_id", "_outbox", "on_wait_ended")

    def __init__(self, databases: list[Database], outbox: Outbox) -> None:
        self._by_id: dict[int, Session] = {}
        self._databases = databases
        self._outbox = outbox
        self._last_id = 0
        #: Called for each wait that ends with a reply.
        self.on_wait_ended: Callable[[Waiter], None] = lambda _: None

    def __iter__(self) -> Iterator[Session]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, session_id: int) -> Session | None:
        """The session with this number, None where it is closed or never was."""
        return self._by_id.get(session_id)

    def open(self, now: int) -> Session:
        """Make a session for a new client; ``now`` in milliseconds since the epoch."""
        self._last_id += 1
        session = self._by_id[self._last_id] = Session(self._last_id, now)
        return session

    def close(self, session: Session) -> None:
        """Forget a client that has gone; it waits no longer."""
        self._by_id.pop(session.id, None)
        self.cancel_wait(session)

    def blocked(self) -> list[Session]:
        """The sessions that wait."""
        return [session for session in self if session.waiter is not None]

    def cancel_wait(self, session: Session) -> None:
        """The session no longer waits; it gets no reply from here."""
        waiter = session.waiter
        if waiter is not None:
            session.waiter = None
            self._databases[waiter.db].waiting.remove(waiter)

    def end_wait(self, session: Session, reply: Reply) -> None:
        """The session no longer waits, and gets ``reply``."""
        waiter = session.waiter
        self.cancel_wait(session)
        if waiter is not None:
            self.on_wait_ended(waiter)
        session.calls += 1
        self._outbox.append((session, reply))

    def time_out(self, session: Session) -> None:
        """End the session's wait with the reply that its command gives for a timeout."""
        if session.waiter is not None:
            self.end_wait(session, session.waiter.on_timeout)
