"""Base classes of partitions, and of the readers whose copies read them in tasks.

Spark accepts no metrics from a Python data source. So a task of a streaming query adds its counts of malformed values
to the stream `MALFORMED_STREAM` of `spark_streams.reports`, and a `StreamMonitor` sums them for each batch. A task
without malformed values sends nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from spark_streams.columns.read_schema import ReadSchema
from spark_streams.errors import headed
from spark_streams.reports import MALFORMED_STREAM, MAXLEN, Malformed
from spark_streams.worker import TaskCopy
from streamclient.connection import BROKEN, Command, Connection
from streamclient.errors import PystreamsError


class QueryPartition(InputPartition):
    """A part of a batch. It is pickled on the driver and unpickled in the worker.

    `checks_fields`: whether the task applies `FieldCheck`.
    """

    checks_fields: bool

    def batches(self, schema: ReadSchema) -> Iterator[Any]:
        """Yield the entries as record batches of that schema."""
        raise NotImplementedError


class TaskReader(TaskCopy):
    """Base class of readers. A task's copy has only the schema, because the partition has all other facts."""

    def __init__(self, schema: ReadSchema) -> None:
        self._schema = schema

    def __getstate__(self) -> dict[str, Any]:
        return {"_schema": self._schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"_schema": state["_schema"].in_session()})

    @headed
    def read(self, partition_: InputPartition) -> Iterator[Any]:
        """Yield a partition's rows as record batches. Called in the worker."""
        # Spark passes a placeholder partition when none were planned.
        if isinstance(partition_, QueryPartition):
            yield from partition_.batches(self._schema)


_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_log = logging.getLogger("spark_streams")
_warned: set[str] = set()


def report_malformed(connection: Connection, streams: Sequence[str], counts: Counter[str]) -> None:
    """Log the counts once for each column and process, and add them to the stream. A refusal is only logged."""
    if not counts:
        return
    for column, count in counts.items():
        if column not in _warned:
            _warned.add(column)
            _log.warning(
                "Column '%s' of %s: %d values did not parse. Add a string column _rescued to the schema to see their "
                "text.",
                column,
                ", ".join(streams[:3]),
                count,
            )
    context = TaskContext.get()
    query = context.getLocalProperty(_QUERY) if context is not None else None
    if context is None or query is None:
        return
    batch = int(context.getLocalProperty(_BATCH) or 0)
    part = f"{context.partitionId()} {' '.join(streams)}"[:200]
    made = Malformed(query, batch, part, dict(counts))
    command: Command = ("XADD", MALFORMED_STREAM, "MAXLEN", "~", MAXLEN, "*", *made.to_fields())
    try:
        connection.command(*command)
    except (PystreamsError, *BROKEN) as problem:
        if str(problem) not in _warned:
            _warned.add(str(problem))
            _log.warning("Counts of values that did not parse cannot be written to %s: %s", MALFORMED_STREAM, problem)
