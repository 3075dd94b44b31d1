"""Filters that Spark hands over: what they say about streams and times narrows what a batch read fetches.

Spark allows a reader to take filters only while `spark.sql.python.filterPushdown.enabled` is on, and refuses one that
could otherwise; so the reader that can is made in the worker that asks for it, and nowhere else. Every filter is given
back for Spark to apply again: what is narrowed here may be narrowed too little, never too much.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterable
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from spark_streams.columns.names import STREAM, TIMESTAMP
from spark_streams.read.batch import BatchReader
from spark_streams.stream_id import LARGEST_SEQ, LAST, ZERO, StreamId

_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


def asked_for() -> bool:
    """Whether the worker that this is wants to hand over filters."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _WORKER in sys.modules or getattr(main, "name", "") == _WORKER


class PushdownReader(BatchReader):
    """A batch reader that takes filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        for one in filters:
            self.narrow(*_streams(one), *_times(one))
        return filters


def _streams(one: Filter) -> tuple[set[str] | None]:
    """The only streams whose rows can pass; None if the filter does not say."""
    if getattr(one, "attribute", None) != (STREAM,):
        return (None,)
    if isinstance(one, EqualTo):
        return ({one.value},)
    return (set(one.value),) if isinstance(one, In) else (None,)


def _times(one: Filter) -> tuple[StreamId, StreamId]:
    """A range of IDs outside of which no row can pass: after the first, up to the second."""
    value: Any = getattr(one, "value", None)
    if getattr(one, "attribute", None) != (TIMESTAMP,) or not isinstance(value, datetime.datetime):
        return ZERO, LAST
    if value.tzinfo is None:
        # The zone is not said: allow for any.
        low = _milliseconds(value.replace(tzinfo=datetime.UTC) - datetime.timedelta(hours=15))
        high = _milliseconds(value.replace(tzinfo=datetime.UTC) + datetime.timedelta(hours=15))
    else:
        low = high = _milliseconds(value)
    after = StreamId(max(0, low), 0).before() if low >= 0 else ZERO
    upto = StreamId(high, LARGEST_SEQ) if high >= 0 else ZERO
    if isinstance(one, EqualTo):
        return after, upto
    if isinstance(one, (GreaterThan, GreaterThanOrEqual)):
        return after, LAST
    if isinstance(one, (LessThan, LessThanOrEqual)):
        return ZERO, upto
    return ZERO, LAST


def _milliseconds(moment: datetime.datetime) -> int:
    return int((moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(milliseconds=1))
