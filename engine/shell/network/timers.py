"""The timers that the core's work needs: when blocked clients are woken, when keys expire, when CLIENT PAUSE ends.

The core says when something is due, this says it to the event loop, and calls the core when the time has come. Times of
the core are milliseconds since the epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.environment.failures import FatalError
from engine.core.keyspace.changes import NEVER
from engine.shell.clock import now_us
from engine.shell.network.connections.connection import Connection
from engine.shell.observation.watchdog import Watchdog

#: A timer for expiry is set for so many microseconds at least and at most: keys that expire one after the other go
#: together, and where the system's clock is set forward that is noticed.
_SHORTEST_US, _LONGEST_US = 1000, 3_600_000_000
#: Seconds after which is looked again whether a script that takes long is over.
_BUSY_S = 0.05


class Timers:
    """One server's. ``connections`` are the open ones by session; ``settle`` delivers what the core did, and ``fail``
    is called with an error that leaves the core in no state to go on.
    """

    __slots__ = ("_connections", "_core", "_expiry", "_fail", "_loop", "_pause", "_settle", "_watchdog", "expiry_at")

    def __init__(
        self,
        core: Core,
        loop: asyncio.AbstractEventLoop,
        connections: Mapping[int, Connection],
        settle: Callable[[], None],
        fail: Callable[[BaseException], None],
        watchdog: Watchdog,
    ) -> None:
        self._core = core
        self._loop = loop
        self._connections = connections
        self._settle = settle
        self._fail = fail
        self._watchdog = watchdog
        self._expiry: asyncio.TimerHandle | None = None
        self._pause: asyncio.TimerHandle | None = None
        #: The time of the next expiry that the timer is set for. Whoever finds another one with the core calls
        #: :meth:`follow_expiry`.
        self.expiry_at = NEVER

    def stop(self) -> None:
        """Nothing happens any more by itself."""
        for timer in (self._expiry, self._pause, *(one.timer for one in self._connections.values())):
            if timer is not None:
                timer.cancel()

    # -- blocked clients ----------------------------------------------------------------------------------------------

    def follow(self, connection: Connection, now: int) -> None:
        """Set a client's timer for what it waits for; ``now`` in microseconds."""
        waiter = connection.session.waiter
        at = waiter.wake_at if waiter is not None else None
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None
        if at is not None:
            connection.timer = self._loop.call_later(max(at * 1000 - now, 0) / 1e6, self._wake, connection)

    def follow_session(self, session: Session) -> None:
        """Set the timer of a session's client, if it still has one, for what it waits for now."""
        connection = self._connections.get(session.id)
        if connection is not None:
            self.follow(connection, now_us())

    def _wake(self, connection: Connection) -> None:
        connection.timer = None
        session = connection.session
        waiter = session.waiter
        if waiter is None or waiter.wake_at is None:
            return
        now = now_us()
        if self._core.is_busy:
            connection.timer = self._loop.call_later(_BUSY_S, self._wake, connection)
        elif now // 1000 >= waiter.wake_at:
            self._core.telemetry.measured_ns = now * 1000
            try:
                self._core.wake(session, now)
            except (FatalError, Exception) as error:  # noqa: BLE001 - nothing is run after it
                self._fail(error)
                return
            try:
                self._settle()
            finally:
                if session.waiter is not None:
                    self.follow(connection, now)
            if self._core.telemetry.latency_ms:
                self._watchdog.worked(now, session.last_command)
        elif session.waiter is not None:
            self.follow(connection, now)

    # -- expiry -------------------------------------------------------------------------------------------------------

    def follow_expiry(self) -> None:
        """Set the timer for the next expiry that the core knows of."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self.expiry_at = self._core.changes.next_expiry
        if self.expiry_at != NEVER:
            delay = min(max(self.expiry_at * 1000 - now_us(), _SHORTEST_US), _LONGEST_US)
            self._expiry = self._loop.call_later(delay / 1e6, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        self.expiry_at = NEVER
        now = now_us()
        if self._core.is_busy:
            self._expiry = self._loop.call_later(_BUSY_S, self._expire)
            return
        try:
            self._core.expire_due(now)
        except (FatalError, Exception) as error:  # noqa: BLE001 - as above
            self._fail(error)
            return
        try:
            self._settle()
        finally:
            if self._expiry is None:
                self.follow_expiry()
        if self._core.telemetry.latency_ms:
            self._watchdog.worked(now, b"keys that expire", b"expire-cycle")

    # -- pauses -------------------------------------------------------------------------------------------------------

    def follow_pause(self) -> None:
        """Somebody has begun or ended a pause: whoever is held back is looked at anew, soon and when one ends."""
        if self._pause is not None:
            self._pause.cancel()
        self._pause = self._loop.call_later(0, self._look_at_pauses)

    def _look_at_pauses(self) -> None:
        self._pause = None
        pause, now = self._core.pause, now_us()
        end = pause.next_end(now // 1000)
        if end:
            delay = min(max(end * 1000 - now, 0), _LONGEST_US)
            self._pause = self._loop.call_later(delay / 1e6, self._look_at_pauses)
        else:
            pause.clear()
            self._expire()
        for connection in list(self._connections.values()):
            if connection.held_back:
                connection.held_back = False
                connection.yield_to_others()
