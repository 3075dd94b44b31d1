"""One run of a job: session, server, reading and writing, its query, progress, and graceful stop."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

import click
from pyspark.errors import StreamingQueryException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pystreams.connect.target import EMBEDDED_JOBS
from pystreams.errors import fail
from pystreams.jobs.filesystem import Files
from pystreams.jobs.flags import Reading, split
from pystreams.jobs.session import session
from pystreams.jobs.shutdown import Stop, StopRequestedError
from pystreams.values.names import printable
from pystreams.values.numbers import things
from spark_streams.config import options as of_connector
from spark_streams.embedded import launcher
from spark_streams.monitor import StreamMonitor
from streamclient.config.address import Address, Embedded
from streamclient.config.connect import ConnectOptions
from streamclient.config.option import options_of
from streamclient.connection import Connection
from streamclient.pool import borrow

#: Function that processes a batch, called with its rows and its number.
Work = Callable[[DataFrame, int], None]
Builder = TypeVar("Builder")

_NOTHING: Mapping[str, object] = {}
_POLL_SECONDS = 0.1
#: Seconds that a stop waits for Spark to record the end of a batch. Without the record, the batch is repeated safely.
_COMMIT_SECONDS = 10.0


class Run:
    """A run of the job `name`.

    `options`: options of the connector. `checkpoint`, `trigger`: only for a streaming query. The session starts when it
    is first used, so a job that only connects to a server does not start it.
    """

    def __init__(
        self,
        name: str,
        *,
        url: str | None,
        options: Mapping[str, str],
        checkpoint: str | None = None,
        trigger: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.checkpoint = checkpoint.rstrip("/") if checkpoint is not None else None
        self.trigger = trigger or {"availableNow": True}
        self.stop = Stop()
        self.batches = 0
        self.rows = 0
        #: Number of the last committed batch with rows, or -1. Set at the query's end.
        self.committed = -1
        #: Error of a failed batch, with its causes, which Spark's error does not include.
        self._of_batch: Exception | None = None
        of_connector.check_names(options)
        common, self._reading, self._writing = split(options)
        self._common = {**common, **({} if url is None else {"url": url})}
        self._spark: SparkSession | None = None
        self._closing = ExitStack()
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        # A failure is shown once, as the job's last line. Without these levels, py4j would also log a batch's failure,
        # and Spark would log errors in expressions as JSON.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        for each in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
            PySparkLogger.getLogger(each).setLevel(logging.CRITICAL)

    @property
    def once(self) -> bool:
        """Whether the job ends after processing all existing data."""
        return "availableNow" in self.trigger

    @property
    def period(self) -> float:
        """Seconds from one batch to the next; 0 if the job ends after processing all existing data."""
        return 0.0 if self.once else int(self.trigger["processingTime"].split()[0]) / 1000

    @property
    def spark(self) -> SparkSession:
        """The session."""
        if self._spark is None:
            self._spark, owned = session(self.name)
            if owned:
                self._closing.callback(self._spark.stop)
            self._closing.enter_context(self.stop.hook(self._spark))
        return self._spark

    @property
    def files(self) -> Files:
        return Files(self.spark)

    def close(self) -> None:
        """End the session, if this run started it."""
        self._closing.close()
        self._spark = None

    def say(self, text: str) -> None:
        """Print a line of progress, with the time of day."""
        click.echo(f"{time.strftime('%H:%M:%S')}  {printable(text)}")

    # The server

    def address(self) -> Address:
        """Return the server's address, and start an embedded engine if needed.

        Raises MISSING_SERVER if the job would use an embedded engine without a directory, whose data would end with
        the job. Jobs in EMBEDDED_JOBS may use such an engine.
        """
        named = {name: value for name, value in self._common.items() if name.lower() in _CONNECTION}
        server = of_connector.server(named)
        if isinstance(server, Embedded) and server.directory is None and self.name not in EMBEDDED_JOBS:
            fail("MISSING_SERVER", job=self.name)
        return launcher.started(server)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Yield a connection to the server."""
        with borrow(self.address()) as connection:
            yield connection

    # Reading and writing

    def read(self, **options: Any) -> Any:
        """Return Spark's reader for streaming reads, with the server and the user's options. Options that are None are
        omitted.
        """
        self.address()
        return self._with(self.spark.readStream.format("pystreams"), self._reading, options)

    def read_batch(self, **options: Any) -> Any:
        """Return Spark's reader for batch reads."""
        self.address()
        return self._with(self.spark.read.format("pystreams"), self._reading, options)

    def write(self, frame: DataFrame, **options: Any) -> None:
        """Append rows to a stream. In the batch function of a streaming query, each batch is written exactly once."""
        self._with(frame.write.format("pystreams").mode("append"), self._writing, options).save()

    def _with(self, builder: Builder, given: Mapping[str, str], options: Mapping[str, Any]) -> Builder:
        """Return the builder with all options. The user's options override the options of the job."""
        named = {name.lower() for name in (*given, *self._common)}
        defaults = {name: value for name, value in options.items() if value is not None and name.lower() not in named}
        made: Builder = builder.options(**self._common, **given, **defaults)  # type: ignore[attr-defined]
        return made

    def stream_of(self, reading: Reading, *, own_columns: bool = False, **options: Any) -> DataFrame:
        """Return the entries of the streams as rows.

        With `own_columns`, the rows include each entry's ID, stream and time.
        """
        streams, schema = reading.streams, reading.schema
        if (not streams) == (reading.pattern is None):
            raise click.UsageError("Choose the streams by --stream NAME, which may be repeated, or --pattern GLOB.")
        reader = self.read(
            streams=",".join(streams) if len(streams) > 1 else None,
            stream=streams[0] if len(streams) == 1 else None,
            streamPattern=reading.pattern,
            group=reading.group,
            startingOffsets=reading.start,
            maxEntriesPerTrigger=reading.max_entries,
            **options,
        )
        if own_columns and schema is not None:
            schema = f"_id string, _stream string, _timestamp timestamp, {schema}"
        return (reader.schema(schema) if schema is not None else reader).load()  # type: ignore[no-any-return]

    # The query

    def need_checkpoint(self) -> str:
        """Return the checkpoint. Raises MISSING_CHECKPOINT."""
        if self.checkpoint is None:
            fail("MISSING_CHECKPOINT", job=self.name)
        return self.checkpoint

    def claim_checkpoint(self, fixed: Mapping[str, object] = _NOTHING) -> str:
        """Return the checkpoint, and record that it belongs to this job with these settings. Raises MISSING_CHECKPOINT
        and CHECKPOINT_TAKEN.
        """
        checkpoint = self.need_checkpoint()
        note = f"{checkpoint}/_job"
        contents = json.dumps({"job": self.name, **{name: value for name, value in fixed.items() if value}})
        if not self.files.exists(note):
            self.files.write_text(note, contents)
        elif (found := self.files.read_text(note)) != contents:
            fail("CHECKPOINT_TAKEN", checkpoint=checkpoint, before=_description(found), now=_description(contents))
        return checkpoint

    def query_id(self) -> str:
        """Return the ID of the checkpoint's query, which must have started before."""
        text = self.files.read_text(f"{self.need_checkpoint()}/metadata")
        return str(json.loads(text.splitlines()[0])["id"])

    def follow(
        self, frame: DataFrame, work: Work, *, output_mode: str = "append", fixed: Mapping[str, object] = _NOTHING
    ) -> None:
        """Run `work` for each batch until the query ends by its trigger, fails, or the job is asked to stop.

        A batch may be repeated after a failure; then the work must have the same result. `fixed`: flags that determine
        the state in the checkpoint. A restart with other values raises CHECKPOINT_TAKEN.
        """

        def batch(rows: DataFrame, number: int) -> None:
            with self.stop.batch():
                try:
                    work(rows, number)
                except Exception as failure:
                    self._of_batch = failure
                    raise

        self._follow(self._writer(frame, fixed).foreachBatch(batch).outputMode(output_mode).start())

    def follow_sink(self, frame: DataFrame, form: str, target: str, partition_by: str) -> None:
        """Append to a table in the format `form`. Spark's sink for this format writes each batch once.

        `target`: the table's directory; for Iceberg the table's name. A missing table is created.
        """
        writer = self._writer(frame).format(form).outputMode("append").partitionBy(partition_by)
        if form == "iceberg":  # the rows of a batch are not sorted by day, as Iceberg requires without fan-out
            self._follow(writer.option("fanout-enabled", "true").toTable(target))
        else:
            self._follow(writer.start(target))

    def _writer(self, frame: DataFrame, fixed: Mapping[str, object] = _NOTHING) -> DataStreamWriter:
        writer = frame.writeStream.queryName(f"pystreams-{self.name}").trigger(**self.trigger)
        return writer.option("checkpointLocation", self.claim_checkpoint(fixed))

    def _follow(self, query: StreamingQuery) -> None:
        watch = _Progress(self, StreamMonitor(**self._of_monitor()))
        try:
            while query.isActive and not self.stop.requested.is_set():
                self._pause(query)
                watch.report_new(query)
            if self.stop.requested.is_set():
                self._end(query, watch)
        finally:
            if query.isActive:
                query.stop()
        watch.report_new(query)
        failure = query.exception()
        stopped = self.stop.requested.is_set()
        if failure is not None and not (stopped and StopRequestedError.__name__ in str(failure)):
            raise self._of_batch or failure
        self.committed = watch.seen
        self.say(f"{'stopped' if stopped else 'done'}: {things(self.rows, 'row')} in {things(self.batches, 'batch')}")

    def _end(self, query: StreamingQuery, watch: _Progress) -> None:
        """Wait until the running batch has ended and Spark has recorded its end, then stop the query."""
        self.say("stopping after this batch")
        before = watch.seen
        began = self.stop.running
        self.stop.wait_for_batch()
        deadline = time.monotonic() + _COMMIT_SECONDS
        while began and _is_busy(query) and watch.seen == before and time.monotonic() < deadline:
            self._pause(query)
            watch.report_new(query)
        query.stop()

    def _pause(self, query: StreamingQuery) -> None:
        """Wait for `_POLL_SECONDS`, or until the query ends. `_follow` raises a failure of the query later."""
        with suppress(StreamingQueryException):
            query.awaitTermination(_POLL_SECONDS)  # type: ignore[arg-type] # seconds may have fractions

    def _of_monitor(self) -> dict[str, Any]:
        address = self.address()
        named = {name: value for name, value in self._common.items() if name.lower() in _CONNECTION}
        return {**named, "url": address.url}


_CONNECTION = {name.lower() for option in options_of(ConnectOptions).values() for name in option.names}


def _description(note: str) -> str:
    """Return the contents of a checkpoint's file `_job` as text for an error."""
    flags = json.loads(note)
    name = flags.pop("job")
    return ", ".join([f"the job {name}", *(f"{flag} {value}" for flag, value in flags.items())])


def _is_busy(query: StreamingQuery) -> bool:
    return query.isActive and bool(query.status["isTriggerActive"])


class _Progress:
    """Prints the progress of a query's batches. `seen`: number of the last finished batch with rows, or -1."""

    def __init__(self, run: Run, monitor: StreamMonitor) -> None:
        self._run = run
        self._monitor = monitor
        self.seen = -1

    def report_new(self, query: StreamingQuery) -> None:
        """Print the batches that have ended since the last call."""
        for progress in query.recentProgress:
            if progress.batchId > self.seen and progress.numInputRows:
                self._run.say(self._line(progress))
                self._run.rows += progress.numInputRows
                self._run.batches += 1
                self.seen = progress.batchId

    def _line(self, progress: StreamingQueryProgress) -> str:
        seconds = (progress.batchDuration or 0) / 1000
        rate = f", {progress.numInputRows / seconds:,.0f} rows/s" if seconds else ""
        return f"batch {progress.batchId}: {progress.numInputRows:,} rows{rate}{self._behind(progress)}"

    def _behind(self, progress: StreamingQueryProgress) -> str:
        """Return the number of unread entries in the streams as text; empty if the query reads no stream."""
        name = progress.name or ""
        sources = [(source.startOffset, source.endOffset, source.numInputRows) for source in progress.sources]
        self._monitor.latest.pop(name, None)
        self._monitor.report(name, progress.batchId, sources, progress.batchDuration or 0)
        report = self._monitor.latest.get(name)
        return "" if report is None else f", {round(report.lag_avg * report.streams):,} behind"
