"""``maxmemory-clients``: how much all clients' buffers may take together; the largest clients are cut off above that.

What counts is what CLIENT LIST shows as ``tot-mem``: input that waits, replies that are not taken, and what MULTI has
queued. CLIENT NO-EVICT excepts a client. It is looked at as often as takes a small part of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.core.clients.description import memory_of
from engine.settings.config import Config
from engine.shell.clock import now_us
from engine.shell.network.connections.connection import Connection
from engine.shell.observation.reporting import LOG
from engine.shell.observation.traffic import Traffic

#: Microseconds between two looks at least, and so many times as long as a look takes.
_EVERY_US, _PART = 100_000, 20


class ClientMemory:
    """One server's. ``connections`` are the open ones by session."""

    __slots__ = ("_config", "_connections", "_next_us", "_now_us", "_traffic", "limit")

    def __init__(
        self,
        config: Config,
        connections: Mapping[int, Connection],
        traffic: Traffic,
        now: Callable[[], int] = now_us,
    ) -> None:
        self._config = config
        self._connections = connections
        self._traffic = traffic
        self._now_us = now
        self._next_us = 0
        #: In bytes; 0: no limit, and :meth:`look` need not be called.
        self.limit = 0
        for name in ("maxmemory", "maxmemory-clients"):
            config.on_change(name, self._follow)
        self._follow()

    def _follow(self) -> None:
        word = self._config.text("maxmemory-clients")
        percent = word.endswith(b"%")
        self.limit = self._config.integer("maxmemory") * int(word[:-1]) // 100 if percent else int(word)

    def look(self, now: int) -> None:
        """Cut off the largest clients until the others keep to the limit; ``now`` in microseconds."""
        if 0 <= self._next_us - now <= _PART * _EVERY_US:
            return
        sizes = {number: memory_of(one.session) for number, one in self._connections.items()}
        total = sum(sizes.values())
        if total > self.limit:
            for number in sorted(sizes, key=sizes.__getitem__, reverse=True):
                session = self._connections[number].session
                if not (session.no_evict or session.is_replica):
                    self._cut_off(self._connections[number], sizes[number])
                    total -= sizes[number]
                if total <= self.limit:
                    break
        self._next_us = now + max(_EVERY_US, min(_PART * (self._now_us() - now), _PART * _EVERY_US))

    def _cut_off(self, connection: Connection, size: int) -> None:
        self._traffic.evicted += 1
        session = connection.session
        LOG.warning("client %d (%r) dropped: %d bytes, above maxmemory-clients", session.id, session.addr, size)
        connection.transport.abort()
