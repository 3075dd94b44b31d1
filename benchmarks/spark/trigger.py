"""The connector's share of a trigger: latestOffset, partitions and commit, on streams of two sizes on the engine.

The benchmark calls the reader as Spark does. For each trigger, some entries are added, the reader returns the next
offset and its partitions, the entries are read (which is not timed), and the batch is committed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import DoubleType, IntegerType, StructField, StructType

from benchmarks import report, servers, targets
from benchmarks.engine.cases import KEY, add_entries
from benchmarks.engine.client import Connection, command
from spark_streams.source import PystreamsDataSource

TITLE = "Spark trigger, connector's share"
_SCHEMA = StructType([StructField("sensor-id", IntegerType()), StructField("temperature", DoubleType())])
_NEW = 100
_WARM_UP = 20
_SETTLE_SECONDS = 3


def measure(sizes: Sequence[int], triggers: int) -> dict[str, Any]:
    """Return the milliseconds of each trigger, without and with a group, by size of the stream; print their medians."""
    figures: dict[str, Any] = {}
    columns = [f"{size:,} entries" for size in sizes]
    print(report.head(*columns) + "   growth; milliseconds, median and 90th percentile")
    with servers.running("engine", servers.engine_command()) as server, Connection(server.port) as connection:
        for size in sizes:
            add_entries(connection, size, _key(size))
        time.sleep(_SETTLE_SECONDS)  # segments are packed one second after they are full, a few at a time
        taken = {
            name: _in_turns([_Query(connection, _key(size), settings) for size in sizes], triggers)
            for name, settings in (("no group", {}), ("group", {"group": "bench"}))
        }
    for name, of_sizes in taken.items():
        medians = [statistics.median(runs) for runs in of_sizes]
        growth = medians[-1] / medians[0]
        cells = [
            f"{median:.2f} {statistics.quantiles(runs, n=10)[-1]:8.2f}"
            for median, runs in zip(medians, of_sizes, strict=True)
        ]
        good = max(medians) <= targets.TRIGGER_MS and report.reached(growth, most=targets.TRIGGER_GROWTH)
        rest = [report.with_target(growth, most=targets.TRIGGER_GROWTH)]
        print(report.line(f"Spark trigger, {name}", cells, rest), flush=True)
        figures[name] = {
            "milliseconds": dict(zip(map(str, sizes), of_sizes, strict=True)),
            "reached": good,
            "target": {"milliseconds": targets.TRIGGER_MS, "growth": targets.TRIGGER_GROWTH},
        }
    return figures


def _key(size: int) -> str:
    return f"{KEY}:{size}"


class _Query:
    """A query that starts at the end of a stream."""

    def __init__(self, connection: Connection, key: str, options: dict[str, str]) -> None:
        source = PystreamsDataSource({"url": connection.url, "stream": key, "startingOffsets": "latest", **options})
        self.reader: Any = source.streamReader(_SCHEMA)
        self._connection = connection
        self._add = command("XADD", key, "*", "sensor-id", 1234, "temperature", "19.8") * _NEW
        self._start = self.reader.initialOffset()

    def trigger(self) -> float:
        """Run one trigger; return its cost in milliseconds."""
        self._connection.lines(self._add, 2 * _NEW)
        begin = time.perf_counter()
        end = self.reader.latestOffset(self._start, ReadAllAvailable())
        partitions = self.reader.partitions(self._start, end)
        planned = time.perf_counter()
        rows = sum(batch.num_rows for partition in partitions for batch in self.reader.read(partition))
        if rows != _NEW:
            raise RuntimeError(f"a trigger after {_NEW} new entries brought {rows} rows")
        read = time.perf_counter()
        self.reader.commit(end)
        self._start = end
        return 1000 * (time.perf_counter() - read + planned - begin)


def _in_turns(queries: list[_Query], triggers: int) -> list[list[float]]:
    """Return the durations of each query's triggers in milliseconds, without the warm-up."""
    spent: list[list[float]] = [[] for _ in queries]
    for number in range(_WARM_UP + triggers):
        for query, times in zip(queries, spent, strict=True):
            took = query.trigger()
            if number >= _WARM_UP:
                times.append(took)
    for query in queries:
        query.reader.stop()
    return spent
