"""Measurements along each axis: entries of a stream, streams, groups, consumers, clients, pending entries.

A measurement fills a server step by step. At each size, it yields resident memory and the cost of commands: processor
time of the server's main thread in microseconds, as the median of some rounds of many repetitions. Processor time is
measured because other work on the machine distorts it least. Only one server is busy at a time.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.engine.cases import FRAME_ID
from benchmarks.engine.client import Connection, command
from benchmarks.engine.larger_than_memory import settled_memory
from benchmarks.servers import Server

KEY, GROUP = "stream", "group"
_AT_ONCE, _PAGE = 1000, 100
#: Number of repetitions of a command, and number of rounds that they are divided into.
REPEATS, _ROUNDS = 200, 5
#: Total number of entries in `streams`; in `pending`, the number of entries that are not pending.
IN_STREAMS = 100_000

#: Costs by name with unit.
Costs = dict[str, float]
Measure = Callable[[Server, Connection, Sequence[int]], Iterator[tuple[int, Costs]]]


def entries(server: Server, connection: Connection, sizes: Sequence[int]) -> Iterator[tuple[int, Costs]]:
    """Measure a growing stream."""
    there = 0
    empty = settled_memory(server.pid)
    requests = [_adds([KEY] * _AT_ONCE, number) for number in range(50)]
    for size in sizes:
        began = _spent(server)
        for number in range((size - there) // _AT_ONCE):
            connection.lines(requests[number % len(requests)], 2 * _AT_ONCE)
        appended = (_spent(server) - began) / (size - there)
        there = size
        resident = settled_memory(server.pid)
        first, last = _ends(connection)
        chooser = random.Random(size)
        yield (
            size,
            {
                "XADD in pipelines of 1,000, microseconds each": appended,
                "XADD alone, microseconds": _median(server, connection, lambda: _adds([KEY], 0)),
                "XRANGE of 100 entries anywhere, microseconds": _median(
                    server,
                    connection,
                    lambda: command("XRANGE", KEY, f"{chooser.randrange(first, last + 1)}-0", "+", "COUNT", _PAGE),  # noqa: B023
                ),
                "XINFO STREAM, microseconds": _median(server, connection, lambda: command("XINFO", "STREAM", KEY)),
                "resident memory, bytes an entry": max(resident - empty, 0) / size,
            },
        )


def streams(server: Server, connection: Connection, sizes: Sequence[int]) -> Iterator[tuple[int, Costs]]:
    """Measure a growing number of streams with the same total of entries."""
    for size in sizes:
        connection.reply(command("FLUSHALL"))
        names = [f"{KEY}:{number:06}" for number in range(size)]
        chooser = random.Random(size)
        for _ in range(IN_STREAMS // _AT_ONCE):
            connection.lines(_adds(chooser.choices(names, k=_AT_ONCE), 0), 2 * _AT_ONCE)
        some = chooser.sample(names, min(size, _PAGE))
        yield (
            size,
            {
                "XADD to any of them, pipelines of 1,000, microseconds each": _median(
                    server,
                    connection,
                    lambda: _adds(chooser.choices(names, k=_AT_ONCE), 0),  # noqa: B023
                    20,
                )
                / _AT_ONCE,
                "XREAD of up to 100 of them, an entry each, microseconds": _median(
                    server,
                    connection,
                    lambda: command("XREAD", "COUNT", 1, "STREAMS", *some, *["0"] * len(some)),  # noqa: B023
                ),
                "SCAN of all by pattern, microseconds": statistics.median(
                    _scan(server, connection) for _ in range(_ROUNDS)
                ),
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
                repeats = max(REPEATS // size, 1)
                taken = [_round(server, others, request, lines, repeats) for _ in range(_ROUNDS)]
                costs[name] = statistics.median(taken) / size
            costs["resident memory, KB a client"] = max(settled_memory(server.pid) - empty, 0) / size / 1e3
            yield size, costs


def pending(server: Server, connection: Connection, sizes: Sequence[int]) -> Iterator[tuple[int, Costs]]:
    """Measure a group with a growing number of pending entries."""
    for number in range((sizes[-1] + IN_STREAMS) // _AT_ONCE):
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
            "XREADGROUP of 100 and XACK, microseconds": statistics.median(
                _worked(server, connection, "w", 10) for _ in range(_ROUNDS)
            ),
            "XPENDING, microseconds": _median(server, connection, lambda: command("XPENDING", KEY, GROUP)),
            "XAUTOCLAIM of 100, microseconds": _median(
                server, connection, lambda: command("XAUTOCLAIM", KEY, GROUP, "d", 0, "0", "COUNT", _PAGE, "JUSTID"), 50
            ),
        }
        if size:
            costs["resident memory, bytes a pending entry"] = max(settled_memory(server.pid) - empty, 0) / size
        yield size, costs


def groups(server: Server, connection: Connection, sizes: Sequence[int]) -> Iterator[tuple[int, Costs]]:
    """Measure a stream with a growing number of groups while one of them reads."""
    connection.lines(_adds([KEY] * _AT_ONCE, 0), 2 * _AT_ONCE)
    there = 0
    for size in sizes:
        create = [command("XGROUP", "CREATE", KEY, _group(number), "0") for number in range(there, size)]
        resident = _added_memory(server, connection, create)
        there = size
        for _ in range(_ROUNDS * 10 * _PAGE // _AT_ONCE):
            connection.lines(_adds([KEY] * _AT_ONCE, size), 2 * _AT_ONCE)
        yield (
            size,
            {
                "XADD alone, microseconds": _median(server, connection, lambda: _adds([KEY], 0)),
                "XREADGROUP of 100 and XACK, microseconds": statistics.median(
                    _worked(server, connection, "w", 10) for _ in range(_ROUNDS)
                ),
                "XINFO GROUPS, microseconds": _median(server, connection, lambda: command("XINFO", "GROUPS", KEY), 10),
                "resident memory, KB a group": resident / 1e3,
            },
        )


def consumers(server: Server, connection: Connection, sizes: Sequence[int]) -> Iterator[tuple[int, Costs]]:
    """Measure a group with a growing number of consumers. Random consumers read."""
    connection.lines(_adds([KEY] * _AT_ONCE, 0), 2 * _AT_ONCE)
    connection.reply(command("XGROUP", "CREATE", KEY, GROUP, "0"))
    there = 0
    for size in sizes:
        create = [command("XGROUP", "CREATECONSUMER", KEY, GROUP, f"c:{number}") for number in range(there, size)]
        resident = _added_memory(server, connection, create)
        there = size
        for _ in range(_ROUNDS * 10 * _PAGE // _AT_ONCE):
            connection.lines(_adds([KEY] * _AT_ONCE, size), 2 * _AT_ONCE)
        chooser = random.Random(size)
        yield (
            size,
            {
                "XREADGROUP of 100 and XACK by any of them, microseconds": statistics.median(
                    _worked(server, connection, f"c:{chooser.randrange(size)}", 10) for _ in range(_ROUNDS)
                ),
                "XPENDING, microseconds": _median(server, connection, lambda: command("XPENDING", KEY, GROUP)),
                "XINFO CONSUMERS, microseconds": _median(
                    server, connection, lambda: command("XINFO", "CONSUMERS", KEY, GROUP), 10
                ),
                "resident memory, KB a consumer": resident / 1e3,
            },
        )


#: By name of the axis: title, unit of the size, sizes, sizes of a short run, measurement.
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
    "groups": ("A stream with a number of groups", "groups", [1, 10, 100, 1000, 10_000], [1, 100, 1000], groups),
    "consumers": (
        "A group with a number of consumers",
        "consumers",
        [1, 10, 100, 1000, 10_000, 100_000],
        [1, 100, 1000],
        consumers,
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
    first, last = (int(FRAME_ID.findall(reply)[0].partition(b"-")[0]) for reply in found)
    return first, last


def _group(number: int) -> str:
    return f"{GROUP}:{number}" if number else GROUP


def _added_memory(server: Server, connection: Connection, requests: Sequence[bytes]) -> float:
    """Run commands whose replies have one line each; return the resident bytes that a command adds on average."""
    before = settled_memory(server.pid)
    for at in range(0, len(requests), _AT_ONCE):
        some = requests[at : at + _AT_ONCE]
        connection.lines(b"".join(some), len(some))
    return max(settled_memory(server.pid) - before, 0) / len(requests)


def _spent(server: Server) -> float:
    """Return the processor time of the server's main thread in microseconds."""
    return int(Path(f"/proc/{server.pid}/schedstat").read_text().split()[0]) / 1e3


def _median(server: Server, connection: Connection, make: Callable[[], bytes], repeats: int = REPEATS) -> float:
    """Return the cost of a command in microseconds: the median of some rounds, after a warm-up."""
    connection.whole(make())
    taken = []
    for _ in range(_ROUNDS):
        requests = [make() for _ in range(max(repeats // _ROUNDS, 2))]
        began = _spent(server)
        for request in requests:
            connection.whole(request)
        taken.append((_spent(server) - began) / len(requests))
    return statistics.median(taken)


def _scan(server: Server, connection: Connection) -> float:
    began, cursor = _spent(server), b"0"
    while True:
        reply = connection.reply(command("SCAN", cursor, "MATCH", f"{KEY}:*", "COUNT", 1000))
        cursor = reply.split(b"\r\n")[2]
        if cursor == b"0":
            return _spent(server) - began


def _round(server: Server, connections: Sequence[Connection], request: bytes, lines: int, repeats: int) -> float:
    """Return the server's processor time for one command of each connection, in microseconds."""
    began = _spent(server)
    for _ in range(repeats):
        for connection in connections:
            connection.send(request)
        for connection in connections:
            connection.lines(b"", lines)
    return (_spent(server) - began) / repeats


def _worked(server: Server, connection: Connection, consumer: str, repeats: int) -> float:
    """Return the server's processor time for delivering a page of new entries to a consumer and acknowledging it, in
    microseconds.
    """
    read = command("XREADGROUP", "GROUP", GROUP, consumer, "COUNT", _PAGE, "STREAMS", KEY, ">")
    began = _spent(server)
    for _ in range(repeats):
        page = FRAME_ID.findall(connection.reply(read))
        connection.lines(command("XACK", KEY, GROUP, *page), 1)
    return (_spent(server) - began) / repeats
