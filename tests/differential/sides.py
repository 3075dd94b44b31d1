"""The two sides of a comparison: each runs a sequence, starting empty, and returns its replies.

The core has its own clock, which follows the real server's: if the server generated an ID from its time, the core gets
this time for that step. An engine in a process has its own time, so sequences for it contain no generated IDs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests import servers
from tests.differential.grammar import Step
from tests.harness.clients import SocketClient
from tests.harness.core import Clock, CoreServer


@contextmanager
def exact_trims(running: servers.Running) -> Iterator[None]:
    """Make ``~`` of a redis-server exact, as on the engine, with one entry per node. Afterwards restore its setting and
    empty it.
    """
    with SocketClient(running.connect(), 2, None) as client:
        before = client.run("CONFIG", "GET", "stream-node-max-entries")[1]
        client.expect(("CONFIG", "SET", "stream-node-max-entries", 1), "OK")
        try:
            yield
        finally:
            client.expect(("CONFIG", "SET", "stream-node-max-entries", before), "OK")
            client.expect("FLUSHALL", "OK")


class ServerSide:
    """A server process, redis-server or the engine, with two connections."""

    automatic_ids = False

    def __init__(self, running: servers.Running, proto: int) -> None:
        self._running = running
        self._proto = proto
        self._clients: list[SocketClient] = []
        #: The server's time at the start and at the end of the last sequence, in milliseconds.
        self.began = self.ended = 0

    def _connect(self) -> None:
        self._clients = [SocketClient(self._running.connect(), self._proto, None) for _ in range(2)]

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._clients = []

    def replies(self, steps: list[Step], _expected: list[Any] | None = None) -> list[Any]:
        """Return the replies to the steps. Consecutive commands of one client are sent together."""
        replies: list[Any] = []
        try:
            self._reset()
            self.began = int(time.time() * 1000)
            while len(replies) < len(steps):
                start = end = len(replies)
                while end < len(steps) and steps[end][0] == steps[start][0]:
                    end += 1
                client = self._clients[steps[start][0]]
                client.send_all([words for _, words in steps[start:end]])
                for _ in range(start, end):
                    replies.append(client.receive())  # noqa: PERF401  (replies before a failure are kept)
            self.ended = int(time.time() * 1000)
        except OSError as error:
            # A closed or silent connection is the reply from here on, and the next sequence gets new connections.
            self.close()
            replies += [error] * (len(steps) - len(replies))
        return replies

    def _reset(self) -> None:
        if not self._clients:
            self._connect()
        for client in self._clients:
            client.run("RESET")
            if self._proto == 3:
                client.run("HELLO", "3")
        self._clients[0].expect("FLUSHALL", "OK")


class CoreSide:
    """The core in this process; ``real`` is the side whose time it follows."""

    automatic_ids = True

    def __init__(self, real: ServerSide, proto: int) -> None:
        self._real = real
        self._proto = proto

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def replies(self, steps: list[Step], expected: list[Any]) -> list[Any]:
        """Return the replies to the steps, given those of the real server."""
        core = CoreServer(self._proto)
        core.clock = Clock(self._real.began * 1000)
        clients = [core.main, core.client()]
        replies: list[Any] = []
        for (client, words), expected_reply in zip(steps, expected, strict=True):
            if words[0].upper() in ("XADD", "EXEC"):
                core.clock.now_us = max(core.clock.now_us, self._time_in(expected_reply) * 1000)
            try:
                replies.append(clients[client].run(*(word.encode() for word in words)))
            except Exception as error:  # noqa: BLE001  (any exception is a difference)
                replies.append(error)
        return replies

    def _time_in(self, reply: Any) -> int:
        """Return the time that the real server used for an ID in its reply; 0 if the reply has no such ID."""
        for part in reply if isinstance(reply, list) else [reply]:
            if isinstance(part, bytes) and part.count(b"-") == 1:
                head = part.partition(b"-")[0]
                if head.isdigit() and self._real.began <= int(head) <= self._real.ended:
                    return int(head)
        return 0
