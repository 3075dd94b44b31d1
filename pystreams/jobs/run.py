"""One run of a job: its Spark session, the connector's options for reads and writes, its query, and its target."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.streaming.listener import QueryProgressEvent
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from pystreams.errors import fail
from pystreams.values.names import printable
from pystreams.values.numbers import things
from spark_streams import register
from spark_streams.config import options as of_connector
from spark_streams.embedded import launcher
from spark_streams.monitor import StreamMonitor
from streamclient.config.address import Address, Embedded
from streamclient.connection import Connection
from streamclient.pool import borrow

#: Function that processes a batch, called with its rows and its number.
Work = Callable[[DataFrame, int], None]

_POLL_SECONDS = 0.2
_REDACTION = "spark.redaction.regex"
_SPARKS_REDACTION = "(?i)secret|password|passphrase|token|access[.]?key"
_LOGIN_IN_URL = "(redis|rediss|unix)([+](sentinel|cluster))?://[^/ ]*@"


class Run:
    """A run of the job `name`. The session starts when it is first used.

    `options`: options of the connector. `embedded`: whether the job may use an embedded engine in memory, whose data
    ends with the job. `checkpoint`, `trigger`: only for a streaming query.
    """

    def __init__(
        self,
        name: str,
        *,
        url: str | None,
        options: Mapping[str, str],
        embedded: bool = False,
        checkpoint: str | None = None,
        trigger: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.checkpoint = None if checkpoint is None else checkpoint.rstrip("/")
        self.trigger = trigger or {"availableNow": True}
        self._options = {**options, **({} if url is None else {"url": url})}
        of_connector.check_names(self._options)
        self._embedded = embedded
        self._spark: SparkSession | None = None
        self._owns_spark = False

    @property
    def spark(self) -> SparkSession:
        """The session: in the active application if there is one, otherwise in a new application."""
        if self._spark is None:
            self._owns_spark = SparkContext._active_spark_context is None
            self._spark = _session(self.name, new=self._owns_spark)
        return self._spark

    def close(self) -> None:
        """Stop Spark, if this run started it."""
        if self._spark is not None and self._owns_spark:
            self._spark.stop()

    def say(self, text: str) -> None:
        """Print a line of progress, with the time of day."""
        click.echo(f"{time.strftime('%H:%M:%S')}  {printable(text)}")

    # The server

    def address(self) -> Address:
        """Return the server's address, and start an embedded engine if needed. Raises MISSING_SERVER."""
        server = of_connector.server(of_connector.CONNECT.chosen(self._options))
        if isinstance(server, Embedded) and server.directory is None and not self._embedded:
            fail("MISSING_SERVER", job=self.name)
        return launcher.started(server)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Yield a connection to the server."""
        with borrow(self.address()) as connection:
            yield connection

    # Reading and writing

    def read_options(self, **options: object) -> dict[str, Any]:
        """Return the options of a read: those of the job that are not None, and those of the user, which override."""
        self.address()
        return {**_given(options), **of_connector.READ.chosen(self._options)}

    def read_stream(
        self,
        *,
        streams: tuple[str, ...],
        pattern: str | None,
        group: str | None,
        start: str,
        max_entries: int | None,
        schema: str | None,
        **options: object,
    ) -> DataFrame:
        """Return the entries of streams, chosen by the flags of reading, with their ID, stream and time."""
        if bool(streams) == (pattern is not None):
            raise click.UsageError("Choose the streams by --stream NAME, which may be repeated, or --pattern GLOB.")
        found = self.read_options(
            stream=streams[0] if len(streams) == 1 else None,
            streams=",".join(streams) if len(streams) > 1 else None,
            streamPattern=pattern,
            group=group,
            startingOffsets=start,
            maxEntriesPerTrigger=max_entries,
            **options,
        )
        reader = self.spark.readStream.format("pystreams").options(**found)
        if schema is not None:
            reader = reader.schema(
                f"_id string, _stream string, _timestamp timestamp, _ms bigint, _seq bigint, {schema}"
            )
        return reader.load()

    def write(self, rows: DataFrame, **options: object) -> None:
        """Append rows to a stream. In the batch function of a streaming query, each batch is written exactly once."""
        found = {**_given(options), **of_connector.WRITE.chosen(self._options)}
        rows.write.format("pystreams").options(**found).mode("append").save()

    # The query

    def follow(self, writer: DataStreamWriter, table: str | None = None) -> None:
        """Run a query until its trigger ends it or it fails, and print its progress. `table`: name of its target table.

        A restart with the same checkpoint continues after the last finished batch, and repeats an unfinished one.
        """
        if self.checkpoint is None:
            fail("MISSING_CHECKPOINT", job=self.name)
        writer = writer.queryName(f"pystreams-{self.name}").trigger(**self.trigger)
        writer = writer.option("checkpointLocation", self.checkpoint)
        query = writer.start() if table is None else writer.toTable(table)
        connection = of_connector.CONNECT.chosen(self._options)
        monitor = StreamMonitor(**{**connection, "url": self.address().url})  # type: ignore[arg-type]
        try:
            _watch(self, query, monitor)
        finally:
            query.stop()


def _watch(run: Run, query: StreamingQuery, monitor: StreamMonitor) -> None:
    """Print the batches of a query, with the number of entries that follow in its streams, until it ends."""
    seen, rows, batches, active = -1, 0, 0, True
    while active:
        active = not query.awaitTermination(_POLL_SECONDS)  # type: ignore[arg-type] # seconds may have fractions
        for progress in query.recentProgress:
            if progress.batchId <= seen or not progress.numInputRows:
                continue
            seen, rows, batches = progress.batchId, rows + progress.numInputRows, batches + 1
            monitor.onQueryProgress(QueryProgressEvent(progress))
            report = monitor.latest.get(progress.name or "")
            behind = "" if report is None else f", {report.lag_entries:,} behind"
            seconds = max(0.001, (progress.batchDuration or 0) / 1000)
            run.say(
                f"batch {seen}: {progress.numInputRows:,} rows, {progress.numInputRows / seconds:,.0f} rows/s{behind}"
            )
    run.say(f"done: {things(rows, 'row')} in {things(batches, 'batch')}")


def _given(options: Mapping[str, object]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _session(name: str, *, new: bool) -> SparkSession:
    """Return a session with `pystreams` registered.

    Unless the user configures it differently, the time zone is UTC, and a shuffle has as many partitions as there are
    cores: Spark's default would cause 200 tasks per batch. Spark's event log and UI do not show logins in URLs of the
    command line.
    """
    builder = SparkSession.builder.appName(f"pystreams-{name}")
    if new:
        builder = builder.config(_REDACTION, f"{SparkConf().get(_REDACTION, _SPARKS_REDACTION)}|{_LOGIN_IN_URL}")
    spark = builder.getOrCreate() if new else builder.getOrCreate().newSession()
    configured = spark.sparkContext.getConf()
    defaults: dict[str, str | int] = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": max(2, spark.sparkContext.defaultParallelism),
    }
    for setting, value in defaults.items():
        if not configured.contains(setting):
            spark.conf.set(setting, value)
    register(spark)
    return spark


to_flag = click.option("--to", "target", metavar="NAME", required=True, help="Target stream.")


def to_stream(run: Run, stream: str) -> Work:
    """Return a function that writes a batch to a stream. A repeated batch is written once."""
    return lambda rows, _number: run.write(_flat(rows), stream=stream)


def _flat(rows: DataFrame) -> DataFrame:
    """Return the rows as entries: `window` becomes `window_start` and `window_end`, and the ID and stream of a source
    entry become `source_id` and `source_stream`, since they do not determine those of the new entry.
    """
    columns = []
    for field in rows.schema.fields:
        if isinstance(field.dataType, StructType):
            columns += [
                F.col(f"`{field.name}`.`{inner}`").alias(f"{field.name}_{inner}")
                for inner in field.dataType.fieldNames()
            ]
        else:
            columns.append(
                F.col(f"`{field.name}`").alias(
                    {"_id": "source_id", "_stream": "source_stream"}.get(field.name, field.name)
                )
            )
    return rows.select(*columns)
