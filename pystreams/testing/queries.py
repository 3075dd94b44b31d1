"""Queries in tests: run a query over existing data, and compare a stream with rows."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pystreams.testing.streams import Server
from pystreams.testing.waiting import START_DEADLINE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_HEADINGS = re.compile(r" *\b(?:df|schema)([12])\b *(?=\|)")
_NAMES = {"1": " actual ", "2": " expected "}


def run_available_now(writer: DataStreamWriter, deadline: float = START_DEADLINE) -> StreamingQuery:
    """Start the query, let it process all existing data, and return it after its end.

    Raises the query's failure. After `deadline` seconds, stops the query and raises TimeoutError.
    """
    query = writer.trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(int(deadline)):
            raise TimeoutError(f"the query did not end within {deadline:g} s: {query.status}")
    finally:
        query.stop()
    return query


def assert_stream_equal(server: Server, stream: str, expected: DataFrame, **options: Any) -> None:
    """Check that a stream, read with the schema of ``expected``, has the same rows in any order.

    ``options`` are options of chispa's `assert_df_equality`. Raises AssertionError with actual and expected rows, side
    by side.
    """
    from chispa import assert_df_equality  # noqa: PLC0415 - of the extra `testing`

    reader = expected.sparkSession.read.format("pystreams").options(**server.options(stream)).schema(expected.schema)
    with _as_assertion(stream):
        assert_df_equality(reader.load(), expected, **{"ignore_row_order": True, "ignore_nullable": True, **options})


@contextlib.contextmanager
def _as_assertion(stream: str) -> Iterator[None]:
    """Raise chispa's differences as AssertionError, with columns named by their meaning, and colours for a terminal."""
    from chispa import DataFramesNotEqualError  # noqa: PLC0415 - of the extra `testing`
    from chispa.schema_comparer import SchemasNotEqualError  # noqa: PLC0415

    try:
        yield
    except (DataFramesNotEqualError, SchemasNotEqualError) as difference:
        text = str(difference) if sys.stdout.isatty() else _COLOURS.sub("", str(difference))
        text = _HEADINGS.sub(lambda found: _NAMES[found[1]].center(len(found[0])), text)
        raise AssertionError(f"the stream {stream} is not as expected:\n{text.strip()}") from None
