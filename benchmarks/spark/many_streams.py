"""Cost of many streams, and of an idle query: the same number of entries in one to ten thousand streams.

The output has three rows for each number of streams: a query without a group, with a group, and with `consume=shared`.
Each figure is the best of `--repeats` runs:

* batch count(): milliseconds of a batch `count()`
* first trigger: milliseconds of a streaming query's first trigger, which reads everything
* one new entry: milliseconds of a trigger after one stream got one entry
* offset, bytes: size of the offset

`--idle SECONDS` measures an idle query instead, with values of four megabytes: processor seconds per minute of Spark
(including its Python processes) and of the server, and kilobytes per second to and from the server.

Run with `python -m benchmarks.spark.many_streams`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks import report, servers
from benchmarks.engine.client import Connection, command
from benchmarks.processor_time import since, spent
from benchmarks.spark.session import session

SCHEMA = "`sensor-id` int, temperature double"
GROUPS: dict[str, dict[str, str]] = {
    "no group": {},
    "group": {"group": "g"},
    "shared": {"group": "s", "consume": "shared"},
}
_IDLE: dict[str, dict[str, str]] = {
    **GROUPS,
    "idleWaitMs=0": {"idleWaitMs": "0"},
    "a trigger a second": {"trigger": "1 second"},
}
_COMMANDS = 5000  # in one request


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 10, 100, 1000, 10_000])
    parser.add_argument("--entries", type=int, default=200_000)
    parser.add_argument("--groups", nargs="+", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--servers", nargs="+", default=["engine", "redis"], choices=["engine", "redis"])
    parser.add_argument("--repeats", type=int, default=3, help="number of runs; the best one counts")
    parser.add_argument("--idle", type=float, metavar="SECONDS", help="measure an idle query for this time instead")
    given = parser.parse_args()
    for name in given.servers:
        start = servers.engine_command() if name == "engine" else servers.redis_command()
        if start is None:
            continue
        with servers.running(name, start) as server, Connection(server.port) as connection:
            if given.idle:
                _idle(name, server.pid, connection, given.idle)
            else:
                _curve(name, connection, given.streams, given.entries, given.groups, given.repeats)


def _curve(
    name: str, connection: Connection, numbers: list[int], entries: int, groups: list[str], repeats: int
) -> None:
    print(
        report.head("batch count()", "first trigger", "one new entry", "offset, bytes") + f"   {entries:,} entries, ms"
    )
    _fill(connection, 1, 1000, "warm")
    _count(connection, "warm")
    _stream(connection, "warm", {})
    for number in numbers:
        connection.reply(command("FLUSHALL"))
        _fill(connection, number, entries // number, "many")
        counted = min(_count(connection, "many") for _ in range(repeats))
        for group in groups:
            runs = []
            for repeat in range(repeats):
                settings = {
                    name: f"{value}{repeat}" if name == "group" else value for name, value in GROUPS[group].items()
                }
                runs.append(_stream(connection, "many", settings))
            first, second, size = map(min, zip(*runs, strict=True))
            cells = [f"{counted:,.0f}", f"{first:,.0f}", f"{second:,.0f}", f"{size:,}"]
            print(report.line(f"{name}, {number:,} streams, {group}", cells), flush=True)


def _fill(connection: Connection, streams: int, each: int, prefix: str) -> None:
    waiting: list[bytes] = []
    for number in range(streams):
        for _ in range(each):
            waiting.append(command("XADD", f"{prefix}:{number:05}", "*", "sensor-id", 1234, "temperature", "19.8"))
            if len(waiting) == _COMMANDS:
                connection.lines(b"".join(waiting), 2 * len(waiting))
                waiting.clear()
    connection.lines(b"".join(waiting), 2 * len(waiting))


def _options(connection: Connection, prefix: str) -> dict[str, str]:
    return {"url": connection.url, "streamPattern": f"{prefix}:*", "startingOffsets": "earliest"}


def _count(connection: Connection, prefix: str) -> float:
    """Return the milliseconds of a batch count()."""
    frame = session().read.format("pystreams").schema(SCHEMA).options(**_options(connection, prefix)).load()
    begin = time.perf_counter()
    frame.count()
    return 1000 * (time.perf_counter() - begin)


def _stream(connection: Connection, prefix: str, settings: dict[str, str]) -> tuple[float, float, int]:
    """Return the milliseconds of a trigger that reads everything, the milliseconds of a trigger that reads one entry,
    and the size of the first trigger's end offset.
    """
    reader = session().readStream.format("pystreams").schema(SCHEMA).options(**_options(connection, prefix), **settings)
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as checkpoint:
        writer = reader.load().writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.start()
        try:
            query.processAllAvailable()
            first = _busy(query)[0]
            connection.lines(command("XADD", f"{prefix}:00000", "*", "sensor-id", 1, "temperature", "1"), 2)
            query.processAllAvailable()
            second = _busy(query)[-1]
        finally:
            query.stop()
    return _milliseconds(first), _milliseconds(second), len(first["sources"][0]["endOffset"])


def _busy(query: Any) -> list[Any]:
    return [progress for progress in query.recentProgress if progress["numInputRows"]]


def _milliseconds(progress: Any) -> float:
    return float(progress["durationMs"]["triggerExecution"])


def _idle(name: str, server: int, connection: Connection, seconds: float) -> None:
    print(report.head("Spark CPU s/min", "server CPU s/min", "to server KB/s", "from server KB/s"))
    for _ in range(2):
        connection.lines(command("XADD", "large:00000", "*", "value", b"x" * (4 << 20)), 2)
    for way, settings in _IDLE.items():
        with _running(connection, settings):
            time.sleep(5)
            before, moved = (spent(os.getpid(), server), spent(server)), _bytes(connection)
            time.sleep(seconds)
            after, moves = (spent(os.getpid(), server), spent(server)), _bytes(connection)
        costs: list[float] = [since(early, late) for early, late in zip(before, after, strict=True)]
        costs += [late - early for early, late in zip(moved, moves, strict=True)]
        cells = [f"{60 * cost / seconds:.2f}" for cost in costs[:2]] + [
            f"{cost / seconds / 1024:,.1f}" for cost in costs[2:]
        ]
        print(report.line(f"{name}, idle, {way}", cells), flush=True)


@contextmanager
def _running(connection: Connection, settings: dict[str, str]) -> Iterator[None]:
    """Run a query that has read all entries, and finds no new entries."""
    options = {**_options(connection, "large"), **settings}
    trigger = {"processingTime": options.pop("trigger", "0 seconds")}
    reader = session().readStream.format("pystreams").schema("value binary").options(**options)
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as checkpoint:
        writer = reader.load().writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(**trigger).start()
        try:
            query.processAllAvailable()
            yield
        finally:
            query.stop()


def _bytes(connection: Connection) -> tuple[int, int]:
    """Return the numbers of bytes that the server has received and sent."""
    lines = dict(
        line.split(":", 1) for line in connection.reply(command("INFO", "stats")).decode().splitlines() if ":" in line
    )
    return int(lines["total_net_input_bytes"]), int(lines["total_net_output_bytes"])


if __name__ == "__main__":
    main()
