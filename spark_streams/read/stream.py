"""Streaming reads on Spark 4.2 and later, which passes the batch's start and the trigger to the reader.

`latestOffset` is called at every trigger with the end of the last finished batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config.read import ReadOptions
from spark_streams.errors import headed
from spark_streams.read.calls import StreamCalls
from spark_streams.read.query.offsets import Offsets
from streamclient.config.address import Address

if TYPE_CHECKING:
    from spark_streams.read.ranges.source import RangeSource
    from spark_streams.read.shared.source import SharedSource


class StreamReader(StreamCalls, SupportsTriggerAvailableNow):
    """Reads streams in micro-batches, with or without a consumer group."""

    def __init__(self, options: ReadOptions, schema: ReadSchema, address: Address) -> None:
        super().__init__(options, schema, address)
        self._reported: tuple[Offsets, dict[str, Any]] | None = None

    def _make(self) -> SharedSource | RangeSource:
        source = super()._make()
        if self._available_now:
            source.prepare_available_now()
        return source

    @headed
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the start of a new query. Every call returns the same start."""
        if self._initial is None:
            self._initial = self._source_of().initial().to_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        # The limits come from the options. Spark's value only shows that a batch has no limit: with Trigger.Once, or if
        # no option sets one.
        options = self._options
        if options.max_entries is not None:
            return ReadMaxRows(options.max_entries)
        return ReadAllAvailable() if options.min_entries is None else ReadMinRows(options.min_entries)

    @headed
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Prepare for Trigger.AvailableNow: read all existing entries, then stop."""
        self._available_now = True
        if self.source is not None:
            self.source.prepare_available_now()

    @headed
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch; `start` itself if there is no next batch.

        Acknowledges finished batches (see `spark_streams.read.calls`).
        """
        return self._next(start, unlimited=isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the last known end of the streams, for the query's progress."""
        latest = None if self.source is None else self.source.latest
        if latest is None:
            return None
        if self._reported is None or self._reported[0] is not latest:
            self._reported = latest, latest.to_json()
        return self._reported[1]
