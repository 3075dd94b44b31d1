"""The compared workloads: Spark's Kafka source and sink, and the connector's on each server, with the same rows.

A row is an integer and a double. In Kafka, a row is JSON in a message's value; in a stream, it is an entry of two
fields. Topic and stream contain the same rows. A topic, and a read of a stream, have as many partitions as there are
cores. Each run writes to a new topic or an empty stream, and the written rows are counted.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from benchmarks.engine.client import Connection, command
from benchmarks.spark.session import CORES, session

IN = "bench"
OUT = "bench-out"
_PATIENCE_MS = 900_000
SCHEMA = "`sensor-id` int, temperature double"


@dataclass(frozen=True)
class Way:
    """One workload, which moves `rows` rows.

    `work` returns the rows and seconds that count, or None if all rows and the whole duration count.
    """

    name: str
    rows: int
    work: Callable[[], tuple[int, float] | None]
    check: Callable[[], None]


def make_rows(number: int) -> DataFrame:
    """Return the rows to write."""
    frame = session().range(0, number, 1, CORES)
    return frame.selectExpr("cast(1000 + id % 9000 as int) AS `sensor-id`", "100 + id % 200 / 10 AS temperature")


class Kafka:
    """Topics of a broker."""

    name = "Kafka"
    groups: tuple[str, ...] = ("",)  # names of the consumer groups to read with; empty: without a group

    def __init__(self, address: str) -> None:
        self.address = address

    def fill(self, number: int) -> None:
        """Write the input."""
        self.write(make_rows(number), IN)

    def ways(self, rows: int, batch: int) -> list[Way]:
        """Return the workloads: batch read, batch write, and stream to stream in batches of ``batch`` rows."""
        numbers = itertools.count(1)
        topics: list[str] = []

        def new_topic() -> str:
            topics.append(f"{OUT}-{next(numbers)}")
            return topics[-1]

        def stream() -> tuple[int, float]:
            frame = columns(self.source(session().readStream.option("maxOffsetsPerTrigger", batch), IN))
            return run(self.to(texts(frame).writeStream, new_topic()), batch)

        def write() -> None:
            self.write(make_rows(rows), new_topic())

        def check() -> None:
            found = self.source(session().read, topics[-1]).count()
            if found != rows:
                raise RuntimeError(f"Kafka: {topics[-1]} has {found} messages, not {rows}")

        return [
            Way("batch read, Kafka", rows, lambda: throw_away(columns(self.source(session().read, IN))), nothing),
            Way("batch write, Kafka", rows, write, check),
            Way("stream to stream, Kafka", rows, stream, check),
        ]

    def write(self, frame: DataFrame, topic: str) -> None:
        """Write a frame to a topic."""
        self.to(texts(frame).write, topic).save()

    def source(self, reader: Any, topic: str) -> DataFrame:
        """Return a topic's messages, starting with the first message."""
        reader = reader.format("kafka").option("kafka.bootstrap.servers", self.address)
        return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()  # type: ignore[no-any-return]

    def to(self, writer: Any, topic: str) -> Any:
        """Return a writer to a topic."""
        writer = writer.format("kafka").option("kafka.bootstrap.servers", self.address).option("topic", topic)
        return writer.option("kafka.delivery.timeout.ms", _PATIENCE_MS)  # a busy machine is slow, not broken

    def follow(self, begin: str, end: str, group: str) -> Any:
        """Return a writer that copies each row of a topic to another topic, with the time of the row's append."""
        del group
        read = self.source(session().readStream, begin)
        row = f"from_json(cast(value AS string), '{SCHEMA}') AS row"
        sent = read.selectExpr(row, "unix_millis(timestamp) AS sent").select("row.*", "sent")
        return self.to(texts(sent).writeStream, end)

    def delays(self, topic: str) -> list[Any]:
        """Return the time of the first append and the delay in milliseconds, for each row of a topic written by
        `follow`.
        """
        sent = "cast(get_json_object(cast(value AS string), '$.sent') AS long) AS sent"
        found = self.source(session().read, topic).selectExpr(sent, "timestamp")
        return found.selectExpr("sent", "unix_millis(timestamp) - sent AS took").collect()


def columns(frame: DataFrame) -> DataFrame:
    """Return the columns in the messages' JSON."""
    return frame.selectExpr(f"from_json(cast(value AS string), '{SCHEMA}') AS row").select("row.*")


def texts(frame: DataFrame) -> DataFrame:
    """Return a frame's rows as messages with JSON."""
    return frame.selectExpr("to_json(struct(*)) AS value")


class Streams:
    """Streams of a server, which the connector reads and writes exactly once."""

    groups: tuple[str, ...] = ("", "bench")

    def __init__(self, name: str, connection: Connection) -> None:
        self.name = name
        self.connection = connection

    def fill(self, number: int) -> None:
        """Write the input."""
        self.write(make_rows(number), IN)

    def ways(self, rows: int, batch: int) -> list[Way]:
        """Return the workloads of `Kafka.ways`, with stream to stream both without and with a group."""
        name = self.name

        def check() -> None:
            length = self.connection.reply(command("XLEN", OUT))
            if length != b":%d\r\n" % rows:
                raise RuntimeError(f"{name}: {OUT} should have {rows} entries, XLEN says {length!r}")
            self.connection.reply(command("DEL", OUT))
            self.connection.reply(command("XGROUP", "DESTROY", IN, self.groups[-1]))

        def streaming(group: str) -> Callable[[], tuple[int, float]]:
            def work() -> tuple[int, float]:
                read = self.source(self.starting(group).option("maxEntriesPerTrigger", batch), IN)
                return run(self.to(read.writeStream, OUT), batch)

            return work

        return [
            Way(f"batch read, {name}", rows, lambda: throw_away(self.source(session().read, IN)), nothing),
            Way(f"batch write, {name}", rows, lambda: self.write(make_rows(rows), OUT), check),
            Way(f"stream to stream, {name}", rows, streaming(""), check),
            Way(f"stream to stream, group, {name}", rows, streaming(self.groups[-1]), check),
        ]

    def write(self, frame: DataFrame, stream: str) -> None:
        """Write a frame to a stream."""
        self.to(frame.write, stream).mode("append").save()

    def starting(self, group: str) -> Any:
        """Return a streaming reader that starts with the first entry."""
        reader = session().readStream.option("startingOffsets", "earliest")
        return reader.option("group", group) if group else reader

    def source(self, reader: Any, stream: str, schema: str = SCHEMA) -> DataFrame:
        """Return a stream's entries."""
        reader = reader.format("pystreams").schema(schema).option("url", self.connection.url)
        return reader.option("stream", stream).option("minPartitions", CORES).load()  # type: ignore[no-any-return]

    def to(self, writer: Any, stream: str) -> Any:
        """Return a writer to a stream."""
        return writer.format("pystreams").option("url", self.connection.url).option("stream", stream)

    def follow(self, begin: str, end: str, group: str) -> Any:
        """Return a writer that copies each row of a stream to another stream, with the time of the row's append."""
        read = self.source(self.starting(group), begin, f"{SCHEMA}, _timestamp timestamp")
        sent = read.selectExpr("`sensor-id`", "temperature", "unix_millis(_timestamp) AS sent")
        return self.to(sent.writeStream, end)

    def delays(self, stream: str) -> list[Any]:
        """Return the time of the first append and the delay in milliseconds, for each row of a stream written by
        `follow`.
        """
        found = self.source(session().read, stream, "sent long, _timestamp timestamp")
        return found.selectExpr("sent", "unix_millis(_timestamp) - sent AS took").collect()


def nothing() -> None:
    """Check nothing, because nothing was written."""


def throw_away(frame: DataFrame) -> None:
    """Read a whole frame and discard its rows."""
    frame.write.format("noop").mode("overwrite").save()


def run(writer: Any, batch: int) -> tuple[int, float]:
    """Run a streaming query to its end; return the rows and seconds of its triggers except the first, a warm-up."""
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
    counted: list[Mapping[str, Any]] = [progress for progress in query.recentProgress if progress["numInputRows"]][1:]
    if any(progress["numInputRows"] > batch for progress in counted) or not counted:
        raise RuntimeError(f"batches of {[progress['numInputRows'] for progress in counted]} rows, not {batch}")
    seconds = sum(progress["durationMs"]["triggerExecution"] for progress in counted) / 1000
    return sum(progress["numInputRows"] for progress in counted), seconds
