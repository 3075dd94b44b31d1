"""Filter pushdown: filters on `_stream`, `_id`, `_timestamp` and `_ms` narrow the streams and ranges of a batch read.

Spark refuses a reader with `pushFilters` unless `spark.sql.python.filterPushdown.enabled` is on. So such a reader is
created only in the worker process that pushes filters down. Spark applies every filter again: the read may be narrowed
too little, but never too much.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterable

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from spark_streams.columns.conversion import ID, MS, STREAM, TIMESTAMP
from spark_streams.read.batch import BatchReader
from streamwire.stream_id import LAST, U64_MAX, ZERO, StreamId

_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


def is_enabled() -> bool:
    """Return whether this process is the worker in which Spark pushes filters down."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _WORKER in sys.modules or getattr(main, "name", "") == _WORKER


class PushdownReader(BatchReader):
    """A batch reader with filter pushdown."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrow the read by the filters, and return all filters, so that Spark applies them again."""
        for predicate in filters:
            self.narrow(_streams(predicate), *_ids(predicate))
        return filters


def _streams(predicate: Filter) -> set[str] | None:
    """Return the streams whose rows can pass the filter; None if it does not restrict the streams."""
    if getattr(predicate, "attribute", None) != (STREAM,):
        return None
    if isinstance(predicate, EqualTo):
        return {predicate.value}
    return set(predicate.value) if isinstance(predicate, In) else None


def _ids(predicate: Filter) -> tuple[StreamId, StreamId]:
    """Return a range (after, upto] of IDs. Rows outside this range cannot pass the filter."""
    attribute, value = getattr(predicate, "attribute", None), getattr(predicate, "value", None)
    if attribute == (ID,) and isinstance(predicate, EqualTo):
        try:
            found = StreamId.parse(predicate.value)
        except ValueError:  # no row passes the filter
            return ZERO, ZERO
        return found.before(), found
    if attribute == (MS,) and isinstance(value, int):
        low = high = value
    elif attribute != (TIMESTAMP,) or not isinstance(value, datetime.datetime):
        return ZERO, LAST
    elif value.tzinfo is None:
        # A time without a zone may be in any zone: since 1970, no offset exceeds 15 hours.
        low = _milliseconds(value.replace(tzinfo=datetime.UTC) - datetime.timedelta(hours=15))
        high = _milliseconds(value.replace(tzinfo=datetime.UTC) + datetime.timedelta(hours=15))
    else:
        low = high = _milliseconds(value)
    after = StreamId(max(0, low), 0).before() if low >= 0 else ZERO
    upto = StreamId(high, U64_MAX) if high >= 0 else ZERO
    if isinstance(predicate, EqualTo):
        return after, upto
    if isinstance(predicate, (GreaterThan, GreaterThanOrEqual)):
        return after, LAST
    if isinstance(predicate, (LessThan, LessThanOrEqual)):
        return ZERO, upto
    return ZERO, LAST


def _milliseconds(moment: datetime.datetime) -> int:
    return int((moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(milliseconds=1))
