"""What is compared: Spark's Kafka source and sink, and the connector's on each server, with the same rows and columns.

A row is an integer and a double; in Kafka it is a JSON text in a message's value, in a stream an entry of two fields.
Topic and stream hold the same rows, the topic in as many partitions as there are cores; reads of the stream are split
in as many. What is written goes to a new topic or stream in each turn, and is counted.
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
    """One way to move `rows` rows.

    `work` returns rows and the seconds that count for them, where these are not all rows and all that it takes.
    """

    name: str
    rows: int
    work: Callable[[], tuple[int, float] | None]
    check: Callable[[], None]


def rows_of(number: int) -> DataFrame:
    """The rows."""
    frame = session().range(0, number, 1, CORES)
    return frame.selectExpr("cast(1000 + id % 9000 as int) AS `sensor-id`", "100 + id % 200 / 10 AS temperature")


class Kafka:
    """Topics of a broker."""

    name = "Kafka"
    groups: tuple[str, ...] = ("",)  # ways to read a stream: without a group

    def __init__(self, address: str) -> None:
        self.address = address

    def fill(self, number: int) -> None:
        """Write the input."""
        self.write(rows_of(number), IN)

    def ways(self, rows: int, batch: int) -> list[Way]:
        """Batch read and write, stream to stream in batches of that many rows."""
        numbers = itertools.count(1)
        topics: list[str] = []

        def anew() -> str:
            topics.append(f"{OUT}-{next(numbers)}")
            return topics[-1]

        def stream() -> tuple[int, float]:
            frame = columns(self.source(session().readStream.option("maxOffsetsPerTrigger", batch), IN))
            return run(self.to(texts(frame).writeStream, anew()), batch)

        def write() -> None:
            self.write(rows_of(rows), anew())

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
        """A topic's messages, from the first."""
        reader = reader.format("kafka").option("kafka.bootstrap.servers", self.address)
        return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()  # type: ignore[no-any-return]

    def to(self, writer: Any, topic: str) -> Any:
        """A writer to a topic."""
        writer = writer.format("kafka").option("kafka.bootstrap.servers", self.address).option("topic", topic)
        return writer.option("kafka.delivery.timeout.ms", _PATIENCE_MS)  # a busy machine is slow, not broken

    def follow(self, begin: str, end: str, group: str) -> Any:
        """A writer from a topic to another, of each row and when it was appended."""
        del group
        read = self.source(session().readStream, begin)
        row = f"from_json(cast(value AS string), '{SCHEMA}') AS row"
        sent = read.selectExpr(row, "unix_millis(timestamp) AS sent").select("row.*", "sent")
        return self.to(texts(sent).writeStream, end)

    def delays(self, topic: str) -> list[Any]:
        """Of each row of a topic that `follow` has written: when it was appended, and how long it took, in ms."""
        sent = "cast(get_json_object(cast(value AS string), '$.sent') AS long) AS sent"
        found = self.source(session().read, topic).selectExpr(sent, "timestamp")
        return found.selectExpr("sent", "unix_millis(timestamp) - sent AS took").collect()


def columns(frame: DataFrame) -> DataFrame:
    """The columns that messages' JSON texts hold."""
    return frame.selectExpr(f"from_json(cast(value AS string), '{SCHEMA}') AS row").select("row.*")


def texts(frame: DataFrame) -> DataFrame:
    """A frame's rows as messages with JSON texts."""
    return frame.selectExpr("to_json(struct(*)) AS value")


class Streams:
    """Streams of a server, by the connector; exactly once."""

    groups: tuple[str, ...] = ("", "bench")

    def __init__(self, name: str, connection: Connection) -> None:
        self.name = name
        self.connection = connection

    def fill(self, number: int) -> None:
        """Write the input."""
        self.write(rows_of(number), IN)

    def ways(self, rows: int, batch: int) -> list[Way]:
        """As Kafka's; stream to stream without a group and with one."""
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
            Way(f"batch write, {name}", rows, lambda: self.write(rows_of(rows), OUT), check),
            Way(f"stream to stream, {name}", rows, streaming(""), check),
            Way(f"stream to stream, group, {name}", rows, streaming(self.groups[-1]), check),
        ]

    def write(self, frame: DataFrame, stream: str) -> None:
        """Write a frame to a stream."""
        self.to(frame.write, stream).mode("append").save()

    def starting(self, group: str) -> Any:
        """A streaming reader that begins with the first entry."""
        reader = session().readStream.option("startingOffsets", "earliest")
        return reader.option("group", group) if group else reader

    def source(self, reader: Any, stream: str, schema: str = SCHEMA) -> DataFrame:
        """A stream's entries."""
        reader = reader.format("pystreams").schema(schema).option("url", self.connection.url)
        return reader.option("stream", stream).option("minPartitions", CORES).load()  # type: ignore[no-any-return]

    def to(self, writer: Any, stream: str) -> Any:
        """A writer to a stream."""
        return writer.format("pystreams").option("url", self.connection.url).option("stream", stream)

    def follow(self, begin: str, end: str, group: str) -> Any:
        """A writer from a stream to another, of each row and when it was appended."""
        read = self.source(self.starting(group), begin, f"{SCHEMA}, _timestamp timestamp")
        sent = read.selectExpr("`sensor-id`", "temperature", "unix_millis(_timestamp) AS sent")
        return self.to(sent.writeStream, end)

    def delays(self, stream: str) -> list[Any]:
        """Of each row of a stream that `follow` has written: when it was appended, and how long it took, in ms."""
        found = self.source(session().read, stream, "sent long, _timestamp timestamp")
        return found.selectExpr("sent", "unix_millis(_timestamp) - sent AS took").collect()


def nothing() -> None:
    """Nothing was written."""


def throw_away(frame: DataFrame) -> None:
    """Read a frame to its end."""
    frame.write.format("noop").mode("overwrite").save()


def run(writer: Any, batch: int) -> tuple[int, float]:
    """Run a streaming query to its end. The rows and seconds of its triggers without the first, which warms up."""
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
    counted: list[Mapping[str, Any]] = [one for one in query.recentProgress if one["numInputRows"]][1:]
    if any(one["numInputRows"] > batch for one in counted) or not counted:
        raise RuntimeError(f"batches of {[one['numInputRows'] for one in counted]} rows, not {batch}")
    seconds = sum(one["durationMs"]["triggerExecution"] for one in counted) / 1000
    return sum(one["numInputRows"] for one in counted), seconds
