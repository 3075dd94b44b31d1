"""A small load test: entries per second that a server adds and returns, and the latency of a request.

The test uses one connection and a temporary stream. It serves to compare servers on one machine. It does not measure
the capacity of a server with many clients.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass

from pystreams.streams.paged_calls import ask, ask_all
from streamclient.connection import Command, Connection

_SINGLE = 10  # a tenth of the entries are also added one by one
_PAGE = 100


@dataclass(frozen=True)
class Measured:
    """Durations and entries of one kind of work.

    `seconds`: durations of the requests in seconds, ascending, without a last request that returns no entries.
    `entries`: total number of entries.
    """

    work: str
    entries: int
    seconds: list[float]

    @property
    def per_second(self) -> float:
        """Entries per second."""
        return self.entries / max(sum(self.seconds), 1e-9)

    def percentile(self, percent: int) -> float:
        """Return this percentile of the durations, in milliseconds."""
        return self.seconds[min(len(self.seconds) - 1, len(self.seconds) * percent // 100)] * 1000


def measure(connection: Connection, entries: int, size: int, pipeline: int) -> Iterator[Measured]:
    """Measure adding entries of `size` bytes one by one and in pipelines, reading them, and delivering them to a
    group.
    """
    stream = b"pystreams:bench:" + secrets.token_hex(8).encode()
    add: Command = ("XADD", stream, "*", "payload", b"x" * size)
    try:
        yield _timed("XADD", 1, [[add]] * max(1, entries // _SINGLE), connection)
        yield _timed(
            f"XADD, {pipeline} at a time", pipeline, [[add] * pipeline] * max(1, entries // pipeline), connection
        )
        yield _read(connection, stream)
        yield _deliver(connection, stream)
    finally:
        connection.close()  # after an interruption a reply may be outstanding
        ask(connection, "DEL", stream)


def _timed(work: str, entries: int, requests: list[list[Command]], connection: Connection) -> Measured:
    seconds: list[float] = []
    for commands in requests:
        begin = time.perf_counter()
        ask_all(connection, commands)
        seconds.append(time.perf_counter() - begin)
    return Measured(work, entries * len(requests), sorted(seconds))


def _read(connection: Connection, stream: bytes) -> Measured:
    seconds: list[float] = []
    count, after = 0, b"-"
    while True:
        begin = time.perf_counter()
        page = ask(connection, "XRANGE", stream, after, "+", "COUNT", _PAGE)
        if page:
            seconds.append(time.perf_counter() - begin)
        count += len(page)
        if len(page) < _PAGE:
            return Measured(f"XRANGE, {_PAGE} at a time", count, sorted(seconds))
        after = b"(" + page[-1][0]


def _deliver(connection: Connection, stream: bytes) -> Measured:
    ask(connection, "XGROUP", "CREATE", stream, "g", "0")
    seconds: list[float] = []
    count = 0
    while True:
        begin = time.perf_counter()
        reply = ask(connection, "XREADGROUP", "GROUP", "g", "c", "COUNT", _PAGE, "STREAMS", stream, ">")
        if not reply:
            return Measured(f"XREADGROUP and XACK, {_PAGE} at a time", count, sorted(seconds))
        ids = [entry_id for entry_id, _ in reply[0][1]]
        ask(connection, "XACK", stream, "g", *ids)
        seconds.append(time.perf_counter() - begin)
        count += len(ids)
