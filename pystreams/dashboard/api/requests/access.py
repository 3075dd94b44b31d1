"""A session's access to the server: a few connections as the session's user, and the names that the user may see.

Connections are lent to the threads that answer requests. If a session may see less than the dashboard's own user, each
name on a page is checked at the server. The results are cached for half a minute.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pystreams.dashboard.security.sessions import Session
from streamclient.connection import BROKEN, Command, Connection
from streamclient.errors import PystreamsError, error
from streamclient.wire_errors import ResponseError

_RETRY_MS = 1000  # time for which connecting is tried
_MOST_CONNECTIONS = 4  # maximum number of connections of a session
_PATIENCE = 10.0  # timeout in seconds for a free connection, and for a reply
_KNOWN_SECONDS = 30.0  # time for which the result of a check of a name is cached
_MOST_KNOWN = 20_000  # maximum number of cached results


class Traffic:
    """Number of commands sent by all sessions of a server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[Connection] = set()
        self._closed = 0

    def opened(self, connection: Connection) -> Connection:
        """Count the commands of a connection, and return it."""
        with self._lock:
            self._open.add(connection)
        return connection

    def close(self, connection: Connection) -> None:
        """Close a connection."""
        connection.close()
        with self._lock:
            self._open.discard(connection)
            self._closed += connection.sent

    def sent(self) -> int:
        """Return the number of commands."""
        with self._lock:
            return self._closed + sum(each.sent for each in self._open)


class Access:
    """Access to the server for one session. `traffic` counts its commands."""

    def __init__(self, session: Session, traffic: Traffic) -> None:
        self.session = session
        self._traffic = traffic
        self._address = replace(session.address, retry_ms=_RETRY_MS, answer_seconds=_PATIENCE)
        self._idle: deque[Connection] = deque()
        self._permits = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._known: OrderedDict[bytes, tuple[bool, float]] = OrderedDict()
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        """Lend a connection. It is closed after a failure, but not after an error reply."""
        if not self._permits.acquire(timeout=_PATIENCE):
            raise error("SERVER_UNREACHABLE", address=self._address.shown, reason="its replies take too long")
        try:
            connection = self._reuse_or_open()
            try:
                yield connection
            except BROKEN as cause:
                self._traffic.close(connection)
                raise connection.unreachable(cause) from cause
            except PystreamsError as failure:
                if failure.condition in ("SERVER_UNREACHABLE", "CONNECTION_BROKEN", "LOGIN_REFUSED"):
                    self._traffic.close(connection)
                else:
                    self._give_back(connection)
                raise
            except BaseException:
                self._traffic.close(connection)  # a reply may still be outstanding
                raise
            self._give_back(connection)
        finally:
            self._permits.release()

    def _reuse_or_open(self) -> Connection:
        while (connection := self._pop_idle()) is not None:
            if connection.usable():
                return connection
            self._traffic.close(connection)
        return self._traffic.opened(Connection(self._address))

    def _pop_idle(self) -> Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _give_back(self, connection: Connection) -> None:
        connection.mark_idle()
        self._idle.append(connection)
        if self._closed:
            # Another thread closed the access while the connection was lent, so it has not closed this connection.
            self.close()

    def close(self) -> None:
        """Close the idle connections. Lent connections are closed when they are returned."""
        self._closed = True
        while (connection := self._pop_idle()) is not None:
            self._traffic.close(connection)

    def visible(self, names: Sequence[bytes]) -> set[bytes]:
        """Return the names that the session's user may read."""
        if self.session.whole:
            return set(names)
        now = time.monotonic()
        asked = [
            name for name in dict.fromkeys(names) if now - self._known.get(name, (False, -1e9))[1] > _KNOWN_SECONDS
        ]
        if asked:
            commands: list[Command] = [("XLEN", name) for name in asked]
            with self.lend() as connection:
                replies = connection.pipeline(commands)
            for name, reply in zip(asked, replies, strict=True):
                refused = isinstance(reply, ResponseError) and str(reply).startswith("NOPERM")
                self._known[name] = (not refused, now)
                self._known.move_to_end(name)
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return {name for name in names if self._known.get(name, (False, 0.0))[0]}
