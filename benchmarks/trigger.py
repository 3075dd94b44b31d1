"""The connector's own share of a trigger: latestOffset, partitions and commit, on streams of two sizes on the engine.

Driven as Spark drives it, without Spark: some entries are added, the reader is asked for the next offset and its
partitions, what they hold is read (which is not timed), the batch is committed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import DoubleType, IntegerType, StructField, StructType

from benchmarks import report, servers, targets
from benchmarks.cases import KEY
from benchmarks.client import Connection, command
from benchmarks.spark_ways import fill
from spark_streams.source import PystreamsDataSource

TITLE = "Spark trigger, connector's share"
_SCHEMA = StructType([StructField("sensor-id", IntegerType()), StructField("temperature", DoubleType())])
_NEW = 100
_WARM_UP = 20
_SETTLE_SECONDS = 3


def measure(sizes: Sequence[int], triggers: int) -> dict[str, Any]:
    """Milliseconds of each trigger, by kind and size of the stream; printed with their medians."""
    figures: dict[str, Any] = {}
    columns = [f"{size:,} entries" for size in sizes]
    print(report.head(*columns) + "   growth; milliseconds, median and 90th percentile")
    with servers.running("engine", servers.engine_command()) as server, Connection(server.port) as connection:
        taken: dict[str, list[list[float]]] = {}
        for size in sizes:
            fill(connection, size)
            time.sleep(_SETTLE_SECONDS)  # segments are packed a second after they are full, a little at a time
            for name, options in (("no group", {}), ("group", {"group": "bench"})):
                taken.setdefault(name, []).append(_triggers(connection, options, triggers))
    for name, of_sizes in taken.items():
        medians = [statistics.median(runs) for runs in of_sizes]
        growth = medians[-1] / medians[0]
        cells = [
            f"{median:.2f} {statistics.quantiles(runs, n=10)[-1]:8.2f}"
            for median, runs in zip(medians, of_sizes, strict=True)
        ]
        good = max(medians) <= targets.TRIGGER_MS and report.reached(growth, most=targets.TRIGGER_GROWTH)
        rest = [report.judged(growth, most=targets.TRIGGER_GROWTH)]
        print(report.line(f"Spark trigger, {name}", cells, rest), flush=True)
        figures[name] = {
            "milliseconds": dict(zip(map(str, sizes), of_sizes, strict=True)), "reached": good,
            "target": {"milliseconds": targets.TRIGGER_MS, "growth": targets.TRIGGER_GROWTH},
        }  # fmt: skip
    return figures


def _triggers(connection: Connection, options: dict[str, str], triggers: int) -> list[float]:
    """Run triggers at the end of the stream; what each cost, in milliseconds."""
    add = command("XADD", KEY, "*", "sensor-id", 1234, "temperature", "19.8") * _NEW
    source = PystreamsDataSource({"url": connection.url, "stream": KEY, "startingOffsets": "latest", **options})
    reader: Any = source.streamReader(_SCHEMA)
    start = reader.initialOffset()
    spent: list[float] = []
    for _ in range(_WARM_UP + triggers):
        connection.lines(add, 2 * _NEW)
        begin = time.perf_counter()
        end = reader.latestOffset(start, ReadAllAvailable())
        partitions = reader.partitions(start, end)
        planned = time.perf_counter()
        rows = sum(batch.num_rows for partition in partitions for batch in reader.read(partition))
        if rows != _NEW:
            raise RuntimeError(f"a trigger after {_NEW} new entries brought {rows} rows")
        read = time.perf_counter()
        reader.commit(end)
        spent.append(1000 * (time.perf_counter() - read + planned - begin))
        start = end
    reader.stop()
    return spent[_WARM_UP:]
