"""Measurements along each axis: entries of a stream, streams, clients, pending entries.

A measurement fills a server step by step and yields the costs at each size: medians of many repetitions, in
microseconds of the client's clock, and resident memory. Only one server is busy at a time.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from benchmarks.engine.cases import FRAME_ID
from benchmarks.engine.client import Connection, command
from benchmarks.engine.larger_than_memory import settled_memory
from benchmarks.servers import Server

KEY, GROUP = "stream", "group"
_AT_ONCE, _PAGE = 1000, 100
_REPEATS = 200
#: Total number of entries in `streams`; in `pending`, the number of entries that are not pending.
_IN_STREAMS = 100_000

#: Costs by name with unit.
Costs = dict[str, float]
Measure = Callable[[Server, Connection, Sequence[int]], Iterator[tuple[int, Costs]]]


def entries(server: Server, connection: Connection, sizes: Sequence[int]) -> Iterator[tuple[int, Costs]]:
    """Measure a growing stream."""
    there = 0
    empty = settled_memory(server.pid)
    requests = [_adds([KEY] * _AT_ONCE, number) for number in range(50)]
    for size in sizes:
        began = time.perf_counter()
        for number in range((size - there) // _AT_ONCE):
            connection.lines(requests[number % len(requests)], 2 * _AT_ONCE)
        appended = (time.perf_counter() - began) / (size - there) * 1e6
        there = size
        resident = settled_memory(server.pid)
        first, last = _ends(connection)
        chooser = random.Random(size)
        yield (
            size,
            {
                "XADD in pipelines of 1,000, microseconds each": appended,
                "XADD alone, microseconds": _median(connection, lambda: _adds([KEY], 0)),
                "XRANGE of 100 entries anywhere, microseconds": _median(
                    connection,
                    lambda: command("XRANGE", KEY, f"{chooser.randrange(first, last + 1)}-0", "+", "COUNT", _PAGE),  # noqa: B023
                ),
                "XINFO STREAM, microseconds": _median(connection, lambda: command("XINFO", "STREAM", KEY)),
                "resident memory, bytes an entry": max(resident - empty, 0) / size,
            },
        )


def streams(_: Server, connection: Connection, sizes: Sequence[int]) -> Iterator[tuple[int, Costs]]:
    """Measure a growing number of streams with the same total of entries."""
    for size in sizes:
        connection.reply(command("FLUSHALL"))
        names = [f"{KEY}:{number:06}" for number in range(size)]
        chooser = random.Random(size)
        for _ in range(_IN_STREAMS // _AT_ONCE):
            connection.lines(_adds(chooser.choices(names, k=_AT_ONCE), 0), 2 * _AT_ONCE)
        some = chooser.sample(names, min(size, _PAGE))
        yield (
            size,
            {
                "XADD to any of them, pipelines of 1,000, microseconds each": _median(
                    connection,
                    lambda: _adds(chooser.choices(names, k=_AT_ONCE), 0),  # noqa: B023
                    20,
                )
                / _AT_ONCE,
                "XREAD of up to 100 of them, an entry each, microseconds": _median(
                    connection,
                    lambda: command("XREAD", "COUNT", 1, "STREAMS", *some, *["0"] * len(some)),  # noqa: B023
                ),
                "SCAN of all by pattern, microseconds": statistics.median(_scan(connection) for _ in range(5)),
            },
        )


def clients(server: Server, connection: Connection, sizes: Sequence[int]) -> Iterator[tuple[int, Costs]]:
    """Measure a growing number of connections, each with one command in progress."""
    with ExitStack() as stack:
        others: list[Connection] = []
        connection.lines(_adds([KEY] * _AT_ONCE, 0), 2 * _AT_ONCE)
        empty = settled_memory(server.pid)
        for size in sizes:
            others += [stack.enter_context(Connection(server.port)) for _ in range(size - len(others))]
            costs: Costs = {}
            for name, request, lines in (
                ("XADD, microseconds each", _adds([KEY], 0), 2),
                ("XRANGE of 1 entry, microseconds each", command("XRANGE", KEY, "-", "+", "COUNT", 1), 11),
            ):
                taken = [_round(others, request, lines) for _ in range(max(1000 // size, 5))]
                costs[name] = statistics.median(taken) / size * 1e6
            costs["resident memory, KB a client"] = max(settled_memory(server.pid) - empty, 0) / size / 1e3
            yield size, costs


def pending(server: Server, connection: Connection, sizes: Sequence[int]) -> Iterator[tuple[int, Costs]]:
    """Measure a group with a growing number of pending entries."""
    for number in range((sizes[-1] + _IN_STREAMS) // _AT_ONCE):
        connection.lines(_adds([KEY] * _AT_ONCE, number), 2 * _AT_ONCE)
    connection.reply(command("XGROUP", "CREATE", KEY, GROUP, "0"))
    there = 0
    empty = settled_memory(server.pid)
    read = command("XREADGROUP", "GROUP", GROUP, "c", "COUNT", _AT_ONCE, "STREAMS", KEY, ">")
    for size in sizes:
        while there < size:
            connection.whole(read)
            there += _AT_ONCE
        costs = {
            "XREADGROUP of 100 and XACK, microseconds": statistics.median(_worked(connection) for _ in range(50)),
            "XPENDING, microseconds": _median(connection, lambda: command("XPENDING", KEY, GROUP)),
            "XAUTOCLAIM of 100, microseconds": _median(
                connection, lambda: command("XAUTOCLAIM", KEY, GROUP, "d", 0, "0", "COUNT", _PAGE, "JUSTID"), 50
            ),
        }
        if size:
            costs["resident memory, bytes a pending entry"] = max(settled_memory(server.pid) - empty, 0) / size
        yield size, costs


#: Title, unit of the size, sizes, sizes of a short run, measurement.
AXES: dict[str, tuple[str, str, list[int], list[int], Measure]] = {
    "entries": (
        "Cost of a growing stream",
        "entries",
        [10**4, 10**5, 10**6, 10**7, 10**8],
        [10**4, 10**5, 10**6],
        entries,
    ),
    "streams": (
        "100,000 entries in a number of streams",
        "streams",
        [1, 10, 100, 1000, 10_000],
        [1, 100, 10_000],
        streams,
    ),
    "clients": (
        "A number of clients, each with one command in progress",
        "clients",
        [1, 10, 100, 1000],
        [1, 10, 100, 1000],
        clients,
    ),
    "pending": (
        "A group with a number of pending entries",
        "pending",
        [0, *(10**power for power in range(3, 8))],
        [0, 10**3, 10**4, 10**5],
        pending,
    ),
}


def _adds(keys: Sequence[str], seed: int) -> bytes:
    chooser = random.Random(seed)
    return b"".join(
        command(
            "XADD", key, "*", "sensor-id", chooser.randrange(100_000), "temperature", f"{chooser.uniform(0, 50):.1f}"
        )
        for key in keys
    )


def _ends(connection: Connection) -> tuple[int, int]:
    """Return the milliseconds of the IDs of the first and the last entry."""
    found = [
        connection.reply(command(*words, "COUNT", 1))
        for words in (("XRANGE", KEY, "-", "+"), ("XREVRANGE", KEY, "+", "-"))
    ]
    first, last = (int(FRAME_ID.findall(one)[0].partition(b"-")[0]) for one in found)
    return first, last


def _timed(connection: Connection, request: bytes) -> float:
    began = time.perf_counter()
    connection.whole(request)
    return (time.perf_counter() - began) * 1e6


def _median(connection: Connection, request: Callable[[], bytes], repeats: int = _REPEATS) -> float:
    """Return the median of a command in microseconds, after a warm-up."""
    return statistics.median([_timed(connection, request()) for _ in range(repeats + 5)][5:])


def _scan(connection: Connection) -> float:
    began, cursor = time.perf_counter(), b"0"
    while True:
        reply = connection.reply(command("SCAN", cursor, "MATCH", f"{KEY}:*", "COUNT", 1000))
        cursor = reply.split(b"\r\n")[2]
        if cursor == b"0":
            return (time.perf_counter() - began) * 1e6


def _round(connections: Sequence[Connection], request: bytes, lines: int) -> float:
    """Return the seconds until all connections have the reply to one command each."""
    began = time.perf_counter()
    for one in connections:
        one.send(request)
    for one in connections:
        one.lines(b"", lines)
    return time.perf_counter() - began


def _worked(connection: Connection) -> float:
    """Return the microseconds of delivering a page of new entries and acknowledging it."""
    read = command("XREADGROUP", "GROUP", GROUP, "w", "COUNT", _PAGE, "STREAMS", KEY, ">")
    began = time.perf_counter()
    page = FRAME_ID.findall(connection.reply(read))
    connection.lines(command("XACK", KEY, GROUP, *page), 1)
    return (time.perf_counter() - began) * 1e6
