"""Counts of a task's malformed values by column, which are logged and added to a stream for the monitor.

Spark accepts no metrics from a Python data source. So a task of a streaming query adds its counts to the stream
`MALFORMED_STREAM` of `spark_streams.reports`, and a `StreamMonitor` sums them for each batch. A task without malformed
values sends nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from pyspark import TaskContext

from spark_streams.reports import MALFORMED_STREAM, MAXLEN, Malformed
from streamclient.connection import BROKEN, Command, Connection
from streamclient.errors import PystreamsError

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_log = logging.getLogger("spark_streams")
_warned: set[str] = set()


def report(connection: Connection, streams: Sequence[str], counts: Counter[str]) -> None:
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
