"""The compared workloads in Spark: the connector, simple code, and Spark's limit.

This module has the work and the check of each workload; `benchmarks.spark.table` decides when workloads run. The stream
to read is filled once. Writes go to another stream, which `clear` removes before every run. All workloads that can be
split have as many tasks as there are cores.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from benchmarks.engine.cases import KEY
from benchmarks.engine.client import Connection, command
from benchmarks.spark.session import CORES, session

OUT = f"{KEY}:out"
SCHEMA = "`sensor-id` int, temperature double"
_PER_TRIGGER = 1_000_000
_PIPELINE = 1000  # commands in one round trip of redis-py


@dataclass(frozen=True)
class Way:
    """One workload, which moves `rows` rows. A `slow` workload runs in fewer rounds.

    `work` returns the seconds that count, or None if the whole duration counts. For a streaming query, only the time of
    its triggers counts, without the second that it takes to start.
    """

    name: str
    rows: int
    work: Callable[[], float | None]
    check: Callable[[], None]
    slow: bool = False


def ways(servers: Mapping[str, Connection], rows: int) -> list[Way]:
    """Return all workloads, in the order in which they run. The keys of `servers` are engine and redis."""
    found = [Way("Spark ceiling", rows, lambda: _throw_away(_ceiling(rows)), _nothing)]
    for name, server in servers.items():
        found.append(Way(f"Spark read, {name}", rows, _reading(server), _nothing))
    for name in [name for name in ("redis", "engine") if name in servers]:
        server = servers[name]
        found.append(Way(f"Spark read, naive, {name}", rows, _reading_naively(server), _nothing, slow=True))
    found.append(Way("Spark write, ceiling", rows, lambda: write_to_nowhere(rows), _nothing))
    for name, server in servers.items():
        found.append(_writer(f"Spark write, {name}", server, rows, _write))
    if "redis" in servers:
        found.append(_writer("Spark write, redis-py, redis", servers["redis"], rows, _write_by_pipeline, slow=True))
    engine = servers["engine"]
    found.append(Way("Spark AvailableNow, ceiling", rows, lambda: _run(_noop(_endless(rows))), _nothing))
    found.append(Way("Spark AvailableNow, engine", rows, lambda: _run(_noop(_arriving(engine))), _nothing))
    modes = ("append", "exactlyOnce")
    found.extend(_writer(f"Spark stream to stream, {mode}", engine, rows, _streaming(mode)) for mode in modes)
    return found


def clear(servers: Mapping[str, Connection]) -> None:
    """Remove the written stream from all servers, so that no server packs it while another one is measured."""
    for server in servers.values():
        server.reply(command("DEL", OUT))


def _nothing() -> None:
    pass


def _throw_away(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _ceiling(rows: int) -> DataFrame:
    return session().read.format("ceiling").option("rows", rows).option("partitions", CORES).load()


def _endless(rows: int) -> DataFrame:
    """Return the ceiling source as a stream."""
    reader = session().readStream.format("ceiling").option("rows", rows).option("partitions", CORES)
    return reader.option("rowsPerTrigger", _PER_TRIGGER).load()


def _options(server: Connection) -> dict[str, Any]:
    return {"url": server.url, "stream": KEY, "minPartitions": CORES}


def _reading(server: Connection) -> Callable[[], None]:
    return lambda: _throw_away(session().read.format("pystreams").schema(SCHEMA).options(**_options(server)).load())


def _reading_naively(server: Connection) -> Callable[[], None]:
    return lambda: _throw_away(session().read.format("naive").option("url", server.url).option("stream", KEY).load())


def _rows(rows: int) -> DataFrame:
    frame = session().range(0, rows, 1, CORES)
    return frame.selectExpr("cast(1000 + id % 9000 as int) AS `sensor-id`", "100 + id % 200 / 10 AS temperature")


def _writer(
    name: str, server: Connection, rows: int, work: Callable[[Connection, int], float | None], slow: bool = False
) -> Way:
    def check() -> None:
        length = server.reply(command("XLEN", OUT))
        if length != b":%d\r\n" % rows:
            raise RuntimeError(f"{name}: {OUT} should have {rows} entries, XLEN says {length!r}")

    return Way(name, rows, lambda: work(server, rows), check, slow)


def _write(server: Connection, rows: int) -> None:
    frame = _rows(rows).write.format("pystreams").option("url", server.url).option("stream", OUT)
    frame.mode("append").save()


def write_to_nowhere(rows: int) -> None:
    """Write to a sink that discards record batches: the minimum for any sink in Python."""
    _rows(rows).write.format("ceiling").mode("append").save()


def _write_by_pipeline(server: Connection, rows: int) -> None:
    """Write as redis-py's guides do: a pipeline for each partition, sent every thousand rows."""
    url = server.url

    def write(part: Iterable[Any]) -> None:
        import redis

        client = redis.Redis.from_url(url, protocol=2)
        pipeline = client.pipeline(transaction=False)
        for number, row in enumerate(part, 1):
            pipeline.xadd(OUT, row.asDict())
            if number % _PIPELINE == 0:
                pipeline.execute()
        pipeline.execute()
        client.close()

    _rows(rows).foreachPartition(write)


def _arriving(server: Connection) -> DataFrame:
    reader = session().readStream.format("pystreams").schema(SCHEMA).options(**_options(server))
    return reader.option("startingOffsets", "earliest").option("maxEntriesPerTrigger", _PER_TRIGGER).load()


def _run(writer: Any) -> float:
    """Run a streaming query to its end; return the duration of its triggers in seconds."""
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
    return sum(progress["durationMs"]["triggerExecution"] for progress in query.recentProgress) / 1000


def _noop(frame: DataFrame) -> Any:
    return frame.writeStream.format("noop")


def _streaming(mode: str) -> Callable[[Connection, int], float]:
    def work(server: Connection, rows: int) -> float:  # noqa: ARG001 - it writes all existing rows
        writer = _arriving(server).writeStream.format("pystreams").option("url", server.url)
        return _run(writer.option("stream", OUT).option("writeMode", mode))

    return work
