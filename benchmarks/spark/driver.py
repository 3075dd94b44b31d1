"""Driver's cost of many streams: the calls with which Spark plans micro-batches, made without Spark.

The output has the wall and processor milliseconds of this process for each call, for a query by `streamPattern` without
and with a group. With a group, the trigger after the first batch also acknowledges this batch. The benchmark adds its
own streams to the server, and removes them at the end.

Run with `python -m benchmarks.spark.driver --url redis+cluster://host:port`.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from pyspark.sql.types import StructType

from benchmarks import report
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config import options
from spark_streams.read.stream import StreamReader
from streamclient.config.address import Address
from streamclient.connection import Connection

PREFIX = "bench-driver"
_COMMANDS = 5000  # in one request
T = TypeVar("T")


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--entries", type=int, default=20, help="entries of each stream")
    given = parser.parse_args()
    connection = Connection(Address(given.url))
    names = [f"{PREFIX}:{number:05}" for number in range(given.streams)]
    try:
        added = (("XADD", name, "*", "n", n) for n in range(given.entries) for name in names)
        for some in _chunks(added):
            connection.commands(some)
        print(report.head("wall ms", "processor ms") + f"   {given.streams:,} streams of {given.entries} entries")
        for group in ({}, {"group": "g"}):
            _plan(connection, given.url, names, group)
    finally:
        for some in _chunks(("DEL", name) for name in names):
            connection.commands(some)
        connection.close()


def _plan(connection: Connection, url: str, names: list[str], group: dict[str, str]) -> None:
    settings = {"url": url, "streamPattern": f"{PREFIX}:*", "startingOffsets": "earliest", "idleWaitMs": "0", **group}
    read = options.read_options(settings)
    assert isinstance(read.address, Address)
    reader = StreamReader(read, ReadSchema.of(StructType().add("n", "integer"), read), read.address)
    limit = reader.getDefaultReadLimit()
    which = "group" if group else "no group"
    begin = _timed(f"{which}: initial offset", reader.initialOffset)
    first = _timed(f"{which}: end of the first batch", lambda: reader.latestOffset(begin, limit))
    parts = _timed(f"{which}: its partitions", lambda: reader.partitions(begin, first))
    _timed(f"{which}: the next trigger", lambda: reader.latestOffset(first, limit))
    _timed(f"{which}: an idle trigger", lambda: reader.latestOffset(first, limit))
    connection.commands([("XADD", names[0], "*", "n", 1)])
    second = _timed(f"{which}: one new entry", lambda: reader.latestOffset(first, limit))
    assert (len(parts) > 0, second != first) == (True, True)
    reader.stop()


def _timed(name: str, call: Callable[[], T]) -> T:
    wall, spent = time.perf_counter(), time.process_time()
    found = call()
    wall, spent = time.perf_counter() - wall, time.process_time() - spent
    print(report.line(name, [f"{1000 * wall:,.0f}", f"{1000 * spent:,.0f}"]), flush=True)
    return found


def _chunks(commands: Iterable[tuple[str | int, ...]]) -> Iterable[list[tuple[str | int, ...]]]:
    commands = iter(commands)
    while some := list(itertools.islice(commands, _COMMANDS)):
        yield some


if __name__ == "__main__":
    main()
