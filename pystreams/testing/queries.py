"""Queries in tests: run over existing data, and compare the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pystreams.testing.streams import Server
from pystreams.testing.waiting import START_DEADLINE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def run_available_now(writer: DataStreamWriter, deadline: float = START_DEADLINE) -> StreamingQuery:
    """Start the query, let it process all existing data, and return it after its end.

    Raises the query's failure, and TimeoutError after `deadline` seconds, when the query is stopped.
    """
    query = writer.trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(int(deadline)):
            raise TimeoutError(f"the query did not end within {deadline:g} s: {query.status}")
    finally:
        query.stop()
    return query


def assert_stream_equal(server: Server, stream: str, expected: DataFrame, **options: Any) -> None:
    """Compare a stream, read with the schema of ``expected``, with these rows in any order.

    ``options`` are those of chispa's `assert_df_equality`. Raises what chispa raises: the rows side by side.
    """
    from chispa import assert_df_equality  # noqa: PLC0415 - of the extra `testing`

    reader = expected.sparkSession.read.format("pystreams").options(**server.options(stream)).schema(expected.schema)
    assert_df_equality(reader.load(), expected, **{"ignore_row_order": True, "ignore_nullable": True, **options})
