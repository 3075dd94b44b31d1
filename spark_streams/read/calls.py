"""How Spark's calls to a streaming reader are answered, on every Spark: the part that does not depend on its release.

What Spark does, and what follows from it:

* `initialOffset` is called several times, and again after a restart before the first batch. The answer is fixed once:
  in the consumer group, which is created at that ID, and in this object.
* `commit` of a batch is called only when the next one has been planned, so an idle stream would leave its last batch
  pending for ever. When the next batch is asked for, the last one is finished: everything up to there is acknowledged
  then.
* A batch is logged before it runs, and a logged batch is replayed from `partitions` alone. What was delivered or
  acknowledged before, and what the options say by then, must not matter there.
* With asynchronous progress tracking, `start` may be ahead of what Spark has written to the checkpoint, and a restart
  asks for entries before it. Spark calls `commit` for what is written. If it was called for the start of a batch when
  that batch was planned, Spark writes in turn, and `start` can be acknowledged and trimmed; else only what was
  committed. Before the second batch of a run nothing is known: then entries are acknowledged, but not trimmed.
* A query runs an empty batch if the offset that it gets differs as a text from the one that it has; so where nothing is
  new, that one is returned.

This object lives in a planner process for as long as the query runs. A copy of it goes with every task, for `read`: it
has the schema and nothing else, so what a task costs does not grow with the query's streams. All that a task must know
is in its partition. How the next batch is asked for is in `stream` (Spark 4.2 and later) and `legacy_stream` (before).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_streams import worker
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config.read import ReadOptions
from spark_streams.headline import headed
from spark_streams.read.query.offsets import Offsets
from spark_streams.read.ranges.source import RangeSource
from spark_streams.read.ranges.task import RangePartition
from spark_streams.read.shared.source import SharedSource
from spark_streams.read.shared.task import SharedPartition
from streamclient import pool
from streamclient.config.address import Address

_KEPT_OFFSETS = 3  # a batch's two, and where the streams end


class StreamCalls(DataSourceStreamReader):
    """What readers of every Spark have: the source, the offsets that were seen last, and tasks."""

    def __init__(self, options: ReadOptions, schema: ReadSchema, address: Address) -> None:
        self._options = options
        self._schema = schema
        self._address = address
        self._source = self._make() if options.group_prefix is None else None
        self._initial: dict[str, Any] | None = None
        self._parsed: list[tuple[dict[str, Any], Offsets]] = []  # the offsets of the last calls
        self._planned_from: dict[str, Any] | None = None  # where the batch begins that was planned last
        self._durable: bool | None = None  # whether a restart begins no earlier than `start`; None: unknown
        self._first_end: dict[str, Any] | None = None  # the end of the first batch of this run

    def __getstate__(self) -> dict[str, Any]:
        return {"_schema": self._schema}

    def _make(self) -> SharedSource | RangeSource:
        source = SharedSource if self._options.shared else RangeSource
        return source(self._options, self._address)

    def _source_of(self, *offsets: Offsets) -> SharedSource | RangeSource:
        """Return the query's source. With groupIdPrefix, its group is the one of these offsets; a new
        query's is new.
        """
        if self._source is None:
            known = [each.source.group for each in offsets if each.source is not None and each.source.group]
            group = known[-1] if known else f"{self._options.group_prefix}-{secrets.token_hex(4)}"
            self._options = replace(self._options, group=group, group_prefix=None)
            self._source = self._make()
        return self._source

    def _next(self, start: dict[str, Any], *, unlimited: bool) -> dict[str, Any]:
        """Return the end of the batch after `start`; `start` without new entries. Acknowledges everything up to
        `start`.
        """
        begin = self._offset(start)
        end = self._source_of(begin).next(begin, unlimited=unlimited, durable=self._durable)
        if end is begin:
            return start
        # Spark calls no commit for the start of a query, and none yet after a restart.
        self._durable = None if self._planned_from is None else False
        self._planned_from = start
        form = end.to_json()
        self._keep(form, end)
        return form

    def _offset(self, form: dict[str, Any]) -> Offsets:
        """Return the offset of a stored form: the same object for the same form, so that it is parsed once."""
        for known, offset in self._parsed:
            if known == form:
                return offset
        offset = Offsets.from_json(form)
        self._keep(form, offset)
        return offset

    def _keep(self, form: dict[str, Any], offset: Offsets) -> None:
        self._parsed = [(form, offset), *self._parsed[: _KEPT_OFFSETS - 1]]

    @headed
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the partitions of the batch between two offsets, the same whenever it is replayed."""
        offsets = self._offset(start), self._offset(end)
        planned = self._source_of(*offsets).partitions(*offsets)
        if self._first_end is None:
            self._first_end = end
        return [replace(part, checks_fields=True) for part in planned] if end == self._first_end else planned

    @headed
    def read(self, partition_: InputPartition) -> Iterator[Any]:
        """Yield a partition's rows as record batches. Called in the worker."""
        worker.spare_modules()
        # Spark passes a placeholder partition when none were planned.
        if isinstance(partition_, (RangePartition, SharedPartition)):
            yield from partition_.batches(self._schema)

    @headed
    def commit(self, end: dict[str, Any]) -> None:
        """Everything up to `end` is finished: acknowledge and trim it."""
        offset = self._offset(end)
        self._source_of(offset).commit(offset)
        self._durable = end == self._planned_from

    @headed
    def stop(self) -> None:
        """The query has ended: give up its group, and close the planner's connections."""
        if self._source is not None:
            self._source.stop()
        pool.close_all()
